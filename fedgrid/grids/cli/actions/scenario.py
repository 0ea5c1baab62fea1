"""Print the class counts per client of a scenario, and write them to files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.text import Text

from fedgrid.algorithms.contract.base import Labels
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.partition import TEST, TRAIN, Partition
from fedgrid.engine.federation.dealing.kinds import KINDS, find_changes
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.round.participation import Participation
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.data.partition_files import CLIENT, EXAMPLE, GROUP, PART
from fedgrid.engine.runtime.data.tables import PARQUET
from fedgrid.engine.runtime.run.prepare import find_partition, load_run_images, prepare_setup
from fedgrid.engine.runtime.storage.user_files import check_output
from fedgrid.grids.display import figure_file
from fedgrid.grids.display.blueprint import Blueprint, build_class_count_table, count_classes
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.planning.images import find_group_notes, find_image_notes, find_split_notes, number_repeats
from fedgrid.redaction import format_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show_scenario(
    config: RunConfig,
    data_dir: Path,
    csv: Path | None,
    export: Path | None,
    figure: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """Print the class counts per client of a scenario, and write them, or each client's examples, to files.

    Args:
        config: a run of the scenario.
        data_dir: where data sets are.
        csv: file for the class counts; None: none is written.
        export: file for the examples of each client; None: none is written.
        figure: file for a figure; None: none is drawn.
        as_json: whether one JSON object is printed in place of text.
        console: where text is printed.

    Raises:
        DataError: if images are missing or damaged, or a file cannot be written.
        ConfigError: if the data set cannot be split like this, a figure not be drawn in this format, or the
            split changes images or labels, which `export` cannot express.
    """
    # All files are checked before the images are read, which may take a minute.
    for option, path in {"--csv": csv, "--export": export, "--figure": figure}.items():
        if path is not None:
            check_output(path, option)
    _check_outputs(config, find_dataset(config.dataset, data_dir).num_classes, export, figure)
    (pool, test), _ = load_run_images(config, data_dir)
    for note in (
        *find_image_notes(config.dataset, (pool, test), data_dir),
        *find_group_notes([config], data_dir),
    ):
        warn(note)
    partition = find_partition(config, data_dir, 0)
    for note in find_split_notes(config, number_repeats(config.dataset, pool), pool.subjects, partition):
        warn(note)
    setup, groups_K = prepare_setup(config, data_dir)
    held_out = sorted(Participation.from_config(config, groups_K).held_out)
    classes_K = [(client.train.classes, client.test.classes) for client in setup.clients]
    classes = find_dataset(config.dataset, data_dir).class_names or tuple(map(str, range(setup.num_classes)))
    blueprint = count_classes(classes_K, setup.server_set.classes, classes)
    names_K = [client.group or str(group) for client, group in zip(setup.clients, groups_K, strict=True)]
    if csv is not None:
        blueprint.write_csv(csv)
    if export is not None:
        write_partition(export, partition, names_K, len(pool))
    if figure is not None:
        figure_file.write_figure(figure, lambda: _draw_class_counts(blueprint, groups_K, names_K))
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
    console.print(build_class_count_table(blueprint, groups_K.tolist(), names_K))
    if held_out:
        console.print(f"Held out of training: {', '.join(map(str, held_out))}", soft_wrap=True)
    for path in (csv, export, figure):
        if path is not None:
            console.print(f"Written to {path}", soft_wrap=True)


def _check_outputs(config: RunConfig, num_classes: int, export: Path | None, figure: Path | None) -> None:
    """Check that the files can express what they are to contain."""
    if figure is not None:
        figure_file.check_format(figure)
    if export is not None and find_changes(config.split, config.clients, num_classes) is not None:
        kinds = (kind for kind in KINDS if find_changes(Split(kind=kind), 1, num_classes) is None)
        raise ConfigError(
            f"--export: split {config.split.kind} changes images or labels, and a file says only who holds "
            f"what; export one of: {', '.join(kinds)}"
        )


def _draw_class_counts(blueprint: Blueprint, groups_K: Labels, names_K: Sequence[str]) -> "Figure":
    """Draw the class counts of each client."""
    from fedgrid.tracking import figures

    names = dict(zip(groups_K.tolist(), names_K, strict=True))
    return figures.class_counts(blueprint.train_KL, blueprint.test_KL, groups_K, blueprint.classes, names)


def write_partition(path: Path, partition: Partition, groups_K: Sequence[str], pool_size: int) -> None:
    """Write each client's examples as csv, or as Parquet by the suffix, for `split file`.

    A file has a row for each example of the pool; if clients share examples, a row for each client and
    example. Official test images are in no row, and groups in no column if all clients are in one.

    Args:
        path: the file.
        partition: the split.
        groups_K: name of the group of each client.
        pool_size: number of examples of the pool.

    Raises:
        DataError: the file cannot be written.
    """
    columns = _build_columns(partition, groups_K, pool_size)
    try:
        if path.suffix == PARQUET:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), path)
        else:
            text = format_csv([list(columns), *zip(*columns.values(), strict=True)])
            path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; name another file") from error


def _build_columns(partition: Partition, groups_K: Sequence[str], pool_size: int) -> dict[str, list[Any]]:
    """Build the columns of a partition's file."""
    rows: list[tuple[int, int, str]] = []
    for client, (train, test) in enumerate(zip(partition.train_K, partition.test_K, strict=True)):
        rows += [(example, client, TRAIN) for example in train.tolist()]
        if not partition.is_official:
            rows += [(example, client, TEST) for example in test.tolist()]
    # By example, so that the file does not depend on the order in which the split deals.
    rows.sort()
    examples = [example for example, _, _ in rows]
    are_shared = len(set(examples)) < len(examples)
    values: dict[str, list[Any]] = {
        EXAMPLE: examples,
        CLIENT: [client for _, client, _ in rows],
        GROUP: [groups_K[client] for _, client, _ in rows],
        PART: [part for _, _, part in rows],
    }
    if len(set(groups_K)) == 1:
        del values[GROUP]
    if partition.is_official:
        # All rows are training examples then: the test images are the data set's own, not of the pool.
        del values[PART]
    if are_shared:
        return values
    # A row for each example, in order, needs no column that numbers them; an example of no client is an empty
    # row.
    del values[EXAMPLE]
    by_example = {name: np.full(pool_size, None) for name in values}
    for name, column in values.items():
        by_example[name][examples] = column
    return {name: column.tolist() for name, column in by_example.items()}
