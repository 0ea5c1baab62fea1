"""The files in a bundle: which there can be, the list of them, and the zip of them.

A bundle is a zip. Below `storage/` is a storage with one grid, as any other but without what is private or
large; below `report/` is the grid's report. `bundle.json` lists all other files with their sizes and
checksums.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from fedgrid.engine.runtime.storage.atomic import replace_files
from fedgrid.engine.runtime.storage.format import compute_checksum
from fedgrid.grids.results.grid_folder import GRIDS, PRESET, RUNS
from fedgrid.grids.results.import_marks import IMPORTED
from fedgrid.grids.results.outcome import SCORES
from fedgrid.grids.results.stored_plugins import FOLDER, INDEX
from fedgrid.manifest import BYTES, CLIENTS, CONFIG, ROUNDS, SHA256, TIMES
from fedgrid.manifest import MANIFEST as RUN_MANIFEST

SUFFIX = ".zip"
MANIFEST, CRATE, README, ENVIRONMENT = "bundle.json", "ro-crate-metadata.json", "README.md", "environment.txt"
STORAGE, REPORT = "storage", "report"
RECORDS = (CONFIG, ROUNDS, CLIENTS)
"""A run's configuration and records."""
RUN_FILES = (*RECORDS, TIMES, SCORES, RUN_MANIFEST)
"""Files of a run, its manifest last; `IMPORTED` is added if others computed it, and its last states with
models."""
FileList = Mapping[str, Mapping[str, Any]]
"""File -> its `SHA256` and its `BYTES`."""

_DESCRIPTION_FILES, _GRID_FILES, _RUN_FILES = (
    "|".join(map(re.escape, names))
    for names in ((README, CRATE, ENVIRONMENT), (RUNS, PRESET, INDEX), (*RUN_FILES, IMPORTED))
)
MEMBER = re.compile(
    rf"{_DESCRIPTION_FILES}|{REPORT}/(index\.html|(tables|figures)/\w[\w.+-]*)"
    rf"|{STORAGE}/{GRIDS}/\w[\w .+-]*/({_GRID_FILES}|{FOLDER}/(?P<plugin>[0-9a-f]{{64}})\.py)"
    rf"|{STORAGE}/[^/\\.][^/\\]*-[0-9a-f]{{12}}/({_RUN_FILES}|state-[\w-]+\.safetensors)"
)
"""Pattern of the names of files in a bundle, except `MANIFEST`: none leads out of a folder."""
VARYING_PARTS = re.compile(
    rf"(?<=^{REPORT}/tables/)[^/]+(?=\.\w+$)|(?<=^{REPORT}/figures/)[^/]+(?=\.\w+$)"
    rf"|(?<=^{STORAGE}/)[^/]+-[0-9a-f]{{12}}(?=/)"
)
"""Parts in which names of files of one kind differ: the name of a table or figure, and of a run's folder."""
WRITTEN_AT = (1980, 1, 1, 0, 0, 0)
"""Time of all files in the zip: the time of packing is no part of a result."""


def list_files(folder: Path) -> FileList:
    """Measure the size and the checksum of each file below a folder, by its name with slashes."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: {BYTES: path.stat().st_size, SHA256: compute_checksum(path)}
        for name, path in sorted(paths.items())
    }


def group_names(names: Iterable[str]) -> list[str]:
    """Group names of files in a bundle; a pattern with a number stands for those of one kind."""
    groups = Counter(VARYING_PARTS.sub("*", name) for name in names)
    return [f"{name} ({count})" if "*" in name else name for name, count in sorted(groups.items())]


def write_zip(folder: Path, target: Path) -> None:
    """Write the files below a folder as a zip; the same files give the same bytes.

    Raises:
        OSError: It cannot be written.
    """
    with replace_files(target) as (temporary,), ZipFile(temporary, "w") as archive:
        # Sorted by name: the order of a file system is no part of a result.
        for name in list_files(folder):
            info = ZipInfo(name, WRITTEN_AT)
            # Mode 0644 and "made on Unix" on every system.
            info.external_attr, info.create_system = 0o100644 << 16, 3
            archive.writestr(info, (folder / name).read_bytes(), ZIP_DEFLATED, 9)
