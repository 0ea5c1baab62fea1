"""Complete names for the shell: presets, files, algorithms, grids, runs.

It imports as little as possible: each key press waits for it.
"""

import os
from importlib.resources import files
from pathlib import Path

import typer

YAML_SUFFIXES = (".yaml", ".yml")


def complete_presets_and_files(incomplete: str) -> list[str]:
    """Complete presets and YAML files, and the folders on the way to files."""
    folder = files("fedgrid.grids") / "presets"
    presets = [Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(YAML_SUFFIXES)]
    return sorted(name for name in presets if name.startswith(incomplete)) + _complete_files(incomplete)


def complete_algorithms(incomplete: str) -> list[str]:
    """Complete algorithms."""
    from fedgrid.algorithms.registry import ALGORITHMS

    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def complete_listed_names(context: typer.Context, incomplete: str) -> list[str]:
    """Complete algorithms or presets, whichever kind the command lists."""
    kind = context.params.get("kind")
    if kind == "presets":
        return [
            name
            for name in complete_presets_and_files(incomplete)
            if not name.endswith((*YAML_SUFFIXES, "/"))
        ]
    return complete_algorithms(incomplete) if kind == "algorithms" else []


def complete_algorithms_and_files(incomplete: str) -> list[str]:
    """Complete what can be searched: algorithms, and YAML files."""
    return complete_algorithms(incomplete) + _complete_files(incomplete)


def complete_grids(context: typer.Context, incomplete: str) -> list[str]:
    """Complete grids of the storage; none for a URI, which would be too slow."""
    names = (path.parent.name for path in _find_storage(context).glob("grids/*/runs.jsonl"))
    return sorted(name for name in names if name.startswith(incomplete))


def complete_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the folders of runs of the storage; none for a URI."""
    names = (path.parent.name for path in _find_storage(context).glob("*/config.json"))
    return sorted(name for name in names if name.startswith(incomplete))


def complete_grids_and_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Complete grids and runs of the storage."""
    return complete_grids(context, incomplete) + complete_runs(context, incomplete)


def complete_grids_presets_and_files(context: typer.Context, incomplete: str) -> list[str]:
    """Complete grids of the storage, presets and YAML files."""
    return [*dict.fromkeys(complete_grids(context, incomplete) + complete_presets_and_files(incomplete))]


def _find_storage(context: typer.Context) -> Path:
    """Find the folder of the storage, as far as it is given on the incomplete command line."""
    # The line is incomplete, so Typer has not applied defaults and environment variables.
    given = context.params.get("storage") or os.environ.get("FEDGRID_STORAGE") or "runs"
    return Path(given).expanduser()


def _complete_files(incomplete: str) -> list[str]:
    """List the YAML files whose path begins like this, and the folders on the way to more of them."""
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    if not folder.is_dir():
        return []
    paths = [f"{path}/" if path.is_dir() else str(path) for path in folder.iterdir()]
    return sorted(
        name for name in paths if name.startswith(incomplete) and name.endswith((*YAML_SUFFIXES, "/"))
    )
