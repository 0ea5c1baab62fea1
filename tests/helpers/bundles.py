"""A small bundle, and what forgers do to one: all checksums are right again, so that only numbers differ."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pyarrow as pa

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles.layout import MANIFEST, STORAGE, list_files, write_zip
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.sealed_json import seal_values
from tests.helpers.command_line import fedgrid
from tests.helpers.manifests import edit_table
from tests.helpers.plugin_files import ALGORITHM
from tests.helpers.undrawn import skip_drawing

GRID = """
dataset: [digits, "csv:{home}/sites.csv#label=ill,client=site"]
algorithm: [fedavg, own]
seeds: [0, 1]
clients: 4
plugins: ["{home}/own.py"]
training: {{rounds: 2, local_epochs: 1}}
"""
RUNS = 8
USER, HOST = "quaxolotl", "host-of-quaxolotl"


def make_grid(home: Path) -> Path:
    """Run the grid `mine` in a user's folder, on digits and on a table, with a plugin; find its storage."""
    (home / "own.py").write_text(ALGORITHM)
    with (home / "sites.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["site", "x", "y", "ill"])
        rows.writerows([row % 4, row % 7 - row % 3, row % 5, row % 2] for row in range(120))
    (home / "mine.yaml").write_text(GRID.format(home=home))
    at = ("--storage", home / "runs")
    result = fedgrid("run", home / "mine.yaml", "--in-process", *at)
    assert result.code == 0, result.err
    return home / "runs"


def make_bundle(storage: Path, target: Path, *options: object) -> Path:
    """Write the bundle of the grid `mine`."""
    with skip_drawing():
        result = fedgrid("bundle", "make", "mine", "-o", target, "--storage", storage, *options)
    assert result.code == 0, result.err
    return target


@contextmanager
def edit_bundle(bundle: Path, target: Path, *, listed: bool = True) -> Iterator[Path]:
    """Yield a folder with the files of a bundle; at the end they become another bundle.

    Args:
        bundle: the bundle to start from.
        target: file of the other bundle.
        listed: whether its list of files is written again; else it is the old one.
    """
    with TemporaryDirectory() as place:
        folder = Path(place)
        with ZipFile(bundle) as archive:
            archive.extractall(folder)
        yield folder
        if listed:
            values = unseal_file(folder / MANIFEST)
            (folder / MANIFEST).unlink()
            (folder / MANIFEST).write_text(seal_values({**values, "files": list_files(folder)}))
        write_zip(folder, target)


def find_run(folder: Path, dataset: str, algorithm: str, seed: int) -> tuple[RunConfig, Path]:
    """Find one of the runs in the folder of a bundle, and its own folder.

    Args:
        folder: of the bundle.
        dataset: short name of the run's data set.
        algorithm: name of its algorithm.
        seed: its seed.
    """
    storage = Storage.from_text(folder / STORAGE)
    for run in GridFolder(storage, list_grids(storage)[0]).read_runs():
        if (run.short_dataset, run.algorithm.name, run.seed) == (dataset, algorithm, seed):
            return run, next(storage.root.glob(f"*-{run.run_id}"))
    raise LookupError(f"no run of {dataset}, {algorithm}, seed {seed}")


def forge_table(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table of a run's records, and write the run's manifest again."""
    edit_table(folder, table, change)
