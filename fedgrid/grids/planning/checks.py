"""Checks before a grid starts: images, splits, storage. They store nothing but downloads."""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.federation.before_training.deal import deal
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data import image_folders
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.dealing.server_images import server_sets
from fedgrid.engine.runtime.data.datasets import find, load
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import warn
from fedgrid.grids.display.steps import Steps


def check_data(runs: Sequence[RunConfig], data_dir: Path, steps: Steps) -> None:
    """Download missing images and draw every split once, so that errors come up before the first run.

    `steps` says so, but for downloads, which show their own progress.

    Raises:
        DataError: if images are missing, damaged, or cannot be downloaded.
        ConfigError: if the data set is too small for a split.
    """
    pairs: dict[str, Pair] = {}
    for name in dict.fromkeys(run.dataset for run in runs):
        pool, server = load(name, data_dir)
        kind, _, place = name.partition(":")
        if kind == "folder" and (note := image_folders.mixed(Path(find(name, data_dir).location))):
            warn(note)
        pairs[name] = pool.without_pixels(), server
    splits = {(run.scenario, run.seed, run.split): run for run in runs}
    steps.say("Checking the splits")
    for number, run in enumerate(splits.values()):
        steps.count(number, len(splits))
        deal(run, pairs[run.dataset], find(run.dataset, data_dir).num_classes)
        server_sets(pairs[run.dataset][1], run.split, run.root_seed)


def check_storage(runs: Sequence[RunConfig], storage: Storage) -> None:
    """Check that these runs can be stored in `storage`.

    Raises:
        ConfigError: if it cannot be written, or holds a run with the same id and another configuration.
    """
    storage.check_writable()
    for run in runs:
        RunFolder(storage, run).check_config()
