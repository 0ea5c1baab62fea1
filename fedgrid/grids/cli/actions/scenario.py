"""Print the class counts per client of a scenario, and write them to files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from fedgrid.algorithms.contract.base import Labels
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.round.participation import Participation
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.run.prepare import images_of, prepare
from fedgrid.grids.display import figure_file
from fedgrid.grids.display.blueprint import Blueprint, class_count_table, count_classes
from fedgrid.grids.display.plain import warn
from fedgrid.grids.planning.images import group_notes, image_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show_scenario(
    config: RunConfig, data_dir: Path, csv: Path | None, figure: Path | None, as_json: bool, console: Console
) -> None:
    """Print the class counts per client of a scenario, and write them to files.

    Raises:
        DataError: if images are missing or damaged, or a file cannot be written.
        ConfigError: if the data set cannot be split like this, or a figure not be drawn in this format.
    """
    if figure is not None:
        figure_file.check_format(figure)
    (pool, _), _ = images_of(config, data_dir)
    for note in (*image_notes(config.dataset, pool, data_dir), *group_notes([config], data_dir)):
        warn(note)
    setup, groups_K = prepare(config, data_dir)
    held_out = sorted(Participation.of(config, groups_K).held_out)
    held_K = [(client.train.labels, client.test.labels) for client in setup.clients]
    classes = find(config.dataset, data_dir).class_names or tuple(map(str, range(setup.num_classes)))
    blueprint = count_classes(held_K, setup.server_set.labels, classes)
    names_K = [client.group or str(group) for client, group in zip(setup.clients, groups_K, strict=True)]
    if csv is not None:
        blueprint.write(csv)
    if figure is not None:
        figure_file.draw(figure, lambda: _holdings(blueprint, groups_K, names_K))
    if as_json:
        clients = [
            {
                "client": client,
                "group": group,
                "group_name": names_K[client],
                "train": blueprint.train_KL[client].tolist(),
                "test": blueprint.test_KL[client].tolist(),
            }
            for client, group in enumerate(groups_K.tolist())
        ]
        about = {"scenario": config.scenario, "seed": config.seed, "classes": classes, "clients": clients}
        about |= {"held_out": held_out} if held_out else {}
        print(json.dumps(about, indent=2))
        return
    console.print(Text.assemble((config.scenario, "bold"), f", seed {config.seed}: images per class"))
    console.print(class_count_table(blueprint, groups_K.tolist(), names_K))
    if held_out:
        console.print(f"Held out of training: {', '.join(map(str, held_out))}", soft_wrap=True)
    for path in (csv, figure):
        if path is not None:
            console.print(f"Written to {path}", soft_wrap=True)


def _holdings(blueprint: Blueprint, groups_K: Labels, names_K: Sequence[str]) -> "Figure":
    from fedgrid.tracking import figures

    names = dict(zip(groups_K.tolist(), names_K, strict=True))
    return figures.class_counts(blueprint.train_KL, blueprint.test_KL, groups_K, blueprint.classes, names)
