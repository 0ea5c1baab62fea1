"""Which client holds which images when a run is explained."""

from pathlib import Path

from fedgrid.engine.federation.before_training.deal import deal, deal_again
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.dealing.split import ClientSplit
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.run.prepare import images_of


def held_in(config: RunConfig, data_dir: Path, round_index: int) -> tuple[ClientSplit, ...]:
    """Return what each client holds in a round, counted from 0, in the order of the images of `prepare`.

    Raises:
        DataError: the images cannot be loaded.
    """
    images, _ = images_of(config.dataset, data_dir)
    num_classes = find(config.dataset, data_dir).num_classes
    splits = deal(config, images, num_classes)
    moved = deal_again(config, images, num_classes, splits)
    now = {
        client: part
        for (client, move), part in zip(config.drift.items(), moved, strict=True)
        if round_index >= move.round - 1
    }
    return tuple(now.get(part.client, part) for part in splits)
