"""What the shell completes: presets, files, algorithms, grids, runs. Light: a key press waits for it."""

import os
from importlib.resources import files
from pathlib import Path

import typer

YAML = (".yaml", ".yml")


def presets_and_files(incomplete: str) -> list[str]:
    """Return the presets and the YAML files that begin like this, folders too."""
    folder = files("fedgrid.grids") / "presets"
    presets = [Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(YAML)]
    return sorted(name for name in presets if name.startswith(incomplete)) + _files(incomplete)


def algorithms(incomplete: str) -> list[str]:
    """Return the algorithms that begin like this."""
    from fedgrid.algorithms.registry import ALGORITHMS

    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def listed_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the algorithms or presets that begin like this, whichever are listed."""
    kind = context.params.get("kind")
    if kind == "presets":
        return [name for name in presets_and_files(incomplete) if not name.endswith((*YAML, "/"))]
    return algorithms(incomplete) if kind == "algorithms" else []


def algorithms_and_files(incomplete: str) -> list[str]:
    """Return what can be searched: algorithms, and YAML files."""
    return algorithms(incomplete) + _files(incomplete)


def grids(context: typer.Context, incomplete: str) -> list[str]:
    """Return the grids of the storage that begin like this; none of a URI, which would be asked."""
    names = (path.parent.name for path in _storage(context).glob("grids/*/runs.jsonl"))
    return sorted(name for name in names if name.startswith(incomplete))


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Return the runs of the storage, by their folders, that begin like this; none of a URI."""
    names = (path.parent.name for path in _storage(context).glob("*/config.json"))
    return sorted(name for name in names if name.startswith(incomplete))


def grids_and_runs(context: typer.Context, incomplete: str) -> list[str]:
    """Return the grids and the runs of the storage that begin like this."""
    return grids(context, incomplete) + runs(context, incomplete)


def grids_presets_and_files(context: typer.Context, incomplete: str) -> list[str]:
    """Return the grids of the storage, the presets and the YAML files that begin like this."""
    return [*dict.fromkeys(grids(context, incomplete) + presets_and_files(incomplete))]


def _storage(context: typer.Context) -> Path:
    given = context.params.get("storage") or os.environ.get("FEDGRID_STORAGE") or "runs"
    return Path(given).expanduser()


def _files(incomplete: str) -> list[str]:
    """Return the YAML files whose path begins like this, and the folders on the way to more of them."""
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    if not folder.is_dir():
        return []
    paths = [f"{path}/" if path.is_dir() else str(path) for path in folder.iterdir()]
    return sorted(name for name in paths if name.startswith(incomplete) and name.endswith((*YAML, "/")))
