"""Marks of runs that somebody else has computed: a file in their folders names the bundle that they came in.

Such runs are read like all others, and used in place of a computation only with `--imported`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.parquet_files import parse_run_id
from fedgrid.sealed_json import seal_values

IMPORTED = "imported.json"


def seal_import(run_id: str, grid: str, bundle: str) -> str:
    """Format the text of a run's `imported.json`; `grid` is its grid here, `bundle` the file's SHA-256."""
    return seal_values({"run_id": run_id, "grid": grid, "bundle": bundle}, indent=2)


def read_import_grid(folder: Path) -> str | None:
    """Read the grid as which a run was imported, None if it was computed here.

    Raises:
        OtherVersion, DamagedFile: the file cannot be read.
    """
    try:
        return str(unseal_file(folder / IMPORTED)["grid"])
    except FileNotFoundError:
        return None


def describe_imports(folders: Iterable[Path]) -> list[str]:
    """Format a sentence for each import among some runs, from their folders."""
    by_grid: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        if (grid := read_import_grid(folder)) is not None:
            # The id at the end of a folder's name says nothing to a reader.
            by_grid[grid].append(folder.name.removesuffix(f"-{parse_run_id(folder)}"))
    return [
        f"imported as {grid}, and not computed here: {len(names)} runs, the first {names[0]}"
        for grid, names in by_grid.items()
    ]


def check_imported(folders: Iterable[Path], accepted_grids: Collection[str]) -> None:
    """Check that these runs were computed here, or imported as one of the grids in `asked`.

    Raises:
        ConfigError: others were imported.
    """
    others = [folder for folder in folders if read_import_grid(folder) not in (None, *accepted_grids)]
    if others:
        names = ", ".join(sorted({str(read_import_grid(folder)) for folder in others}))
        raise ConfigError(
            f"{'; '.join(describe_imports(others))}: --imported {names} uses them, --fresh or another "
            "--storage "
            "computes them"
        )
