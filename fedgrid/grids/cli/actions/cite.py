"""`fedgrid cite`: of a grid that was launched with what made its runs, or of one that could be."""

from collections.abc import Sequence
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, PACKAGES, PYTHON, parts_of, versions
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cite.methods import paragraph
from fedgrid.grids.cite.references import list_uncited, references
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.archived import is_archived
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.redaction import printable
from fedgrid.tracking.tables.formats import escape_latex


def cite(what: str, storage: Storage, data_dir: Path) -> None:
    """Print the paragraph, what has no citation, and the entries: a file that BibTeX reads as it is.

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
        runs = GridFolder(storage, what).runs()
    else:
        runs = load_grid(what, {}, [], data_dir).runs
    if any(map(is_archived, runs)):
        raise ConfigError(
            f"{what}: its runs were imported from the OCFL authors' archive, not made by fedgrid; cite their "
            "papers, which `fedgrid cite paper` prints"
        )
    lacking = " ".join("; ".join(list_uncited(runs)).split())
    parts = [
        paragraph(runs, _made_with(runs, storage), data_dir),
        *([f"% Without a citation here: {lacking}."] if lacking else []),
        *references(runs).values(),
    ]
    print(printable("\n\n".join(parts)))


def _made_with(runs: Sequence[RunConfig], storage: Storage) -> dict[str, str]:
    """Return name -> version of Python and of packages: those that made the runs, or else those here."""
    made = [
        part.made_with for run in runs for part in parts_of(folder_of(storage.root, run) / MADE_WITH)
    ] or [versions()]
    return {
        name: escape_latex(" or ".join(sorted({of_run[name] for of_run in made if name in of_run})))
        for name in (PYTHON, *PACKAGES)
    }
