"""Manifests of runs whose files were written, or changed, by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.manifest import (
    CONFIG,
    MANIFEST,
    PREVIOUS_MANIFEST,
    SEGMENT,
    FileEntry,
    Manifest,
    is_round_file,
    read_manifest,
)
from fedgrid.parquet_files import parse_run_id


def list_files(folder: Path, **changes: Any) -> Manifest:
    """Write the manifest of a run for the files that it has now, and states, with those fields changed.

    A run without a manifest has as many rounds as its table of rounds.
    """
    path = folder / MANIFEST
    before = Manifest.from_text(path.read_text()) if path.exists() else None
    names = [each.name for each in folder.iterdir() if each.name == CONFIG or is_round_file(each.name)]
    if before is not None and any(map(SEGMENT.fullmatch, before.files)):
        names = [name for name in before.files if (folder / name).exists()]
    files = {name: FileEntry.from_bytes((folder / name).read_bytes()) for name in sorted(names)}
    if before is not None:
        manifest = replace(before, **changes)
        state_files = {name for names in manifest.states.values() for name in names}
        gone = {name: entry for name, entry in before.files.items() if name in state_files}
        manifest = replace(manifest, files=gone | files)
    else:
        rounds = pq.read_metadata(folder / "rounds.parquet").num_rows if "rounds.parquet" in files else 0
        fields = {"rounds": rounds, "rounds_done": rounds, **changes}
        manifest = Manifest(parse_run_id(folder), files=files, **fields)
    for name in (MANIFEST, PREVIOUS_MANIFEST):
        if name == MANIFEST or (folder / name).exists():
            (folder / name).write_text(manifest.to_text())
    return manifest


def edit_table(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the records of a run in its one file of a table, and list that again."""
    path = folder / f"{table}.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    list_files(folder)


def list_finished(storage: Path, runs: str = "*") -> list[Path]:
    """List the folders of the finished runs of a storage whose names match."""
    folders = sorted(path.parent for path in storage.glob(f"{runs}/{MANIFEST}"))
    return [folder for folder in folders if read_manifest(folder).is_finished]
