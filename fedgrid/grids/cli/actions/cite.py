"""Print the BibTeX of what a grid uses, below a line of its settings, for `fedgrid cite`."""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.integrity.made_with import PACKAGES, PYTHON, find_versions, load_parts
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cite.references import collect_references, list_uncited
from fedgrid.grids.presets.axis_keys import AXES, format_axis_value, list_axis_keys, list_axis_pairs
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.archive_models import is_archived
from fedgrid.grids.results.axes import find_naming_keys
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.tracking.training_line import describe_training


def print_citations(what: str, storage: Storage, data_dir: Path) -> None:
    """Print settings, what has no citation, and the entries, as a file that BibTeX reads unchanged.

    Args:
        what: a grid of the storage, or else a preset, a YAML file or a scenario.
        storage: what runs were made with is read from their folders.
        data_dir: folder of the images.

    Raises:
        ConfigError: there is none of that name, it is damaged, or its runs are not ours.
        RunError: the storage cannot be read.
    """
    storage.pull_marks()
    if what in list_grids(storage):
        runs = GridFolder(storage, what).read_runs()
    else:
        runs = load_grid(what, {}, [], data_dir).runs
    if any(map(is_archived, runs)):
        raise ConfigError(
            f"{what}: its runs were imported from the OCFL authors' archive, not made by fedgrid; cite their "
            "papers, which `fedgrid cite paper` prints"
        )
    lacking = " ".join("; ".join(list_uncited(runs)).split())
    lines = [
        f"% {_describe_settings(runs)} With {_describe_versions(runs, storage)}.",
        *([f"% Without a citation here: {lacking}."] if lacking else []),
    ]
    print("\n\n".join(["\n".join(lines), *collect_references(runs).values()]))


def _describe_settings(runs: Sequence[RunConfig]) -> str:
    """Describe the number of runs, the values of their axes, and what they train, on one line."""
    axes = (*AXES, *find_naming_keys(runs))
    values = {axis: dict.fromkeys(format_axis_value(run, axis) for run in runs) for axis in axes}
    given = (f"{axis} {', '.join(filter(None, each))}" for axis, each in values.items() if any(each))
    trained = describe_training([dict(list_axis_pairs(run, list_axis_keys([run]))) for run in runs])
    count = "1 run" if len(runs) == 1 else f"{len(runs):,} runs"
    # For BibTeX an @ begins an entry.
    return " ".join(f"{count}: {'; '.join(given)}. {trained}".split()).replace("@", "(at)")


def _describe_versions(runs: Sequence[RunConfig], storage: Storage) -> str:
    """Describe the versions of Python and packages: those that made the runs, or else those here."""
    made = [part.made_with for run in runs for part in load_parts(build_folder_path(storage.root, run))] or [
        find_versions()
    ]
    return ", ".join(
        f"{name} {' or '.join(sorted({run_versions[name] for run_versions in made if name in run_versions}))}"
        for name in (PACKAGES[0], PYTHON, *PACKAGES[1:])
    )
