"""Reading of a bundle, which anybody may have made: it is checked as a whole before anything of it is used.

It is unpacked into a temporary folder, where no name leads outside, and nothing of it is executed. Its final
scores are computed from its records there: those that another version of fedgrid, or a forger, wrote are not
used.
"""

import json
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from shutil import copyfileobj, disk_usage
from tempfile import gettempdir
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import pyarrow as pa

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.errors import ConfigError, FedgridError
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path, find_last_round
from fedgrid.engine.runtime.storage.format import compute_checksum, load_manifest, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles.layout import MANIFEST, MEMBER, RECORDS, STORAGE, SUFFIX, FileList
from fedgrid.grids.results import stored_plugins
from fedgrid.grids.results.grid_folder import GRIDS, RUNS, GridFolder
from fedgrid.grids.results.outcome import inspect_run, read_scores, write_scores
from fedgrid.manifest import BYTES, CLIENTS, CONFIG, ROUNDS, SHA256, STATE, TIMES, Manifest
from fedgrid.manifest import MANIFEST as RUN_MANIFEST
from fedgrid.parquet_files import read_parquet
from fedgrid.regular_files import LARGEST_LIST, LARGEST_STATE, open_file
from fedgrid.tracking.records import RecordsError, read_records, read_table

MOST_PACKED = 100
"""Most bytes that a byte of a bundle can stand for: text is packed to a tenth, records hardly at all."""
OVERHEAD = 2000
"""Most bytes that a zip needs for a file in addition to its content: its name and times, twice."""
DAMAGE_ERRORS = (BadZipFile, EOFError, LZMAError, NotImplementedError, RuntimeError, ValueError, zlib.error)
"""Errors of zipfile for damaged files. RuntimeError stands for encryption."""

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move the cursor, colour the screen, or reverse the direction of a text."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that was checked and unpacked."""

    path: Path
    digest: str
    """SHA-256 of its file, as sha256sum prints it."""
    grid: GridFolder
    storage: Storage
    """Its content, in a temporary folder."""
    runs: tuple[RunConfig, ...]
    version: str
    """Version of fedgrid that made it, as it claims."""
    files: FileList
    """All files, without the list of them."""
    scores: Mapping[str, Mapping[str, Any]]
    """Run id -> its final scores as the author wrote them. Those in `storage` follow from the records."""


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Yield a bundle, unpacked until the end of the block.

    Raises:
        ConfigError: There is no such file, or it is no bundle, is too large, or does not hold what it lists.
    """
    with create_scratch_folder() as place:
        try:
            yield _unpack_and_check(path, place)
        except FedgridError as error:
            # A message must name the user's file, not the temporary folder.
            error.args = (f"{error}".replace(f"{place}", f"{path}"),)
            raise


def _unpack_and_check(path: Path, folder: Path) -> Bundle:
    """Unpack and check a bundle, and convert errors to a `ConfigError`."""
    try:
        about = _unpack_files(path, folder)
        return _check_content(path, compute_checksum(path), about, Storage.from_text(folder / STORAGE))
    except FileNotFoundError as error:
        raise ConfigError(f"no file {path}; name a bundle, which `fedgrid bundle make` writes") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be unpacked: {error}") from error
    except FedgridError as error:
        raise ConfigError(str(error)) from error


@contextmanager
def open_grid(text: str, storage: Storage) -> Iterator[GridFolder]:
    """Yield the grid that a word of the command line names.

    It is a bundle, STORAGE/grids/NAME, which is a grid of another storage, or a grid of `storage`.

    Raises:
        ConfigError: There is no such grid.
    """
    path = Path(text)
    if path.suffix == SUFFIX:
        with open_bundle(path) as bundle:
            yield bundle.grid
        return
    is_elsewhere = path.parent.name == GRIDS and (path / RUNS).exists()
    grid = (
        GridFolder(Storage.from_text(path.parents[1]), path.name)
        if is_elsewhere
        else GridFolder(storage, text)
    )
    grid.storage.pull_marks()
    grid.read_runs()
    yield grid


def _unpack_files(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack a bundle whose names and sizes are those of a bundle; return the content of `bundle.json`."""
    try:
        with open_file(path, LARGEST_STATE) as file, ZipFile(file) as archive:
            about = _read_file_list(path, archive)
            for info in archive.infolist():
                if info.filename != MANIFEST:
                    target = folder / info.filename
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _extract_file(archive, info, target, about["files"][info.filename])
            return about
    # Some FedgridErrors are ValueErrors, which the next clause would take for damage.
    except FedgridError:
        raise
    except DAMAGE_ERRORS as error:
        raise ConfigError(f"{path} is no bundle, or damaged: {error}; get it again") from error


def _read_file_list(path: Path, archive: ZipFile) -> dict[str, Any]:
    """Read `bundle.json`, after checking that the zip has the files that it lists and no others."""
    infos = archive.infolist()
    # Of two files of one name zipfile reads the last, and other programs the first.
    by_name = {info.filename: info for info in infos}
    # On some disks names that differ in capitals only are the same file, and one would replace the other.
    last = {info.filename.casefold(): info for info in infos}
    if len(last) < len(infos):
        twice = next(info.filename for info in infos if last[info.filename.casefold()] is not info)
        raise ConfigError(f"{path} has two files {twice!r:.200}; get it from somebody else")
    if MANIFEST not in by_name:
        raise ConfigError(f"{path} is no bundle: it has no {MANIFEST}; `fedgrid bundle make` writes one")
    for name, info in by_name.items():
        mode = info.external_attr >> 16
        if name != MANIFEST and MEMBER.fullmatch(name) is None:
            raise ConfigError(f"{path} has a file {name!r:.200}, which no bundle has")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise ConfigError(f"{path}: {name} is a link, or something else that is no file")
    _check_sizes(path, by_name)
    values = unseal_file(path / MANIFEST, archive.read(MANIFEST))
    listed = values.get("files")
    if not isinstance(listed, dict) or not all(map(_is_entry, listed.values())):
        raise ConfigError(f"{path}: {MANIFEST} does not list files")
    for name in sorted(listed.keys() ^ (by_name.keys() - {MANIFEST})):
        where = "is missing" if name in listed else f"is not in its {MANIFEST}"
        raise ConfigError(f"{path}: {name} {where}; get the bundle again")
    return values


def _check_sizes(path: Path, infos: Mapping[str, ZipInfo]) -> None:
    """Check sizes by the list at the end of a zip; nothing else of it was read."""
    size, free, packed = (
        sum(info.file_size for info in infos.values()),
        measure_free_space(),
        path.stat().st_size,
    )
    used = sum(info.compress_size + OVERHEAD for info in infos.values()) + OVERHEAD
    # Bytes that belong to no file would be content that nobody checks.
    if packed > used:
        raise ConfigError(f"{path} has {packed:,} bytes, and its files take {used:,} of them: no bundle does")
    for name, info in infos.items():
        if info.file_size > LARGEST_LIST and not name.endswith((".parquet", ".safetensors")):
            raise ConfigError(f"{path}: {name} has {info.file_size:,} bytes, which it has in no bundle")
    if size > MOST_PACKED * packed:
        raise ConfigError(f"{path} of {packed:,} bytes would take {size:,}: no bundle packs so well")
    if size > free // 2:
        raise ConfigError(
            f"{path} would take {size:,} bytes, and {free:,} are free for temporary files: set TMPDIR to a "
            "folder with more"
        )


def measure_free_space() -> int:
    """Measure the bytes that are free for temporary files."""
    return disk_usage(gettempdir()).free


def _is_entry(value: object) -> bool:
    """Check whether a value is an entry of a list of files."""
    return isinstance(value, dict) and isinstance(value.get(BYTES), int) and SHA256 in value


def _extract_file(archive: ZipFile, info: ZipInfo, target: Path, listed: Mapping[str, Any]) -> None:
    """Extract one file, and check it against its entry."""
    name = info.filename
    # zipfile never writes more than the declared size, which was checked.
    with archive.open(info) as source, target.open("wb") as copy:
        copyfileobj(source, copy)
    if info.file_size != listed[BYTES] or compute_checksum(target) != listed[SHA256]:
        raise ConfigError(f"{name} is not the file that {MANIFEST} lists: it was changed afterwards")
    plugin = MEMBER.fullmatch(name)
    if plugin and plugin["plugin"] not in (None, listed[SHA256]):
        raise ConfigError(f"plugin {name} is not the code that its name says: it was changed")


def _check_content(path: Path, digest: str, about: Mapping[str, Any], storage: Storage) -> Bundle:
    """Check that the files are those of finished runs of one grid, and build the bundle."""
    grids = [place.name for place in storage.root.glob(f"{GRIDS}/*")]
    if len(grids) != 1:
        raise ConfigError(f"{path} has {len(grids)} grids, not one")
    grid = GridFolder(storage, grids[0])
    runs, scores = grid.read_runs(), {}
    folders = {build_folder_path(storage.root, run).name for run in runs}
    # A run that counts twice would lower the share that may differ.
    if len(folders) < len(runs):
        raise ConfigError(f"{path} lists a run twice: it has {len(folders)} runs, and claims {len(runs)}")
    if other := {place.name for place in storage.root.iterdir()} - folders - {GRIDS}:
        raise ConfigError(f"{path} has a run {min(other)}, which is not of its grid")
    for run in runs:
        RunFolder(storage, run).check_config()
        folder = build_folder_path(storage.root, run)
        manifest = load_manifest(folder)
        _check_manifest(path, run, manifest)
        status = inspect_run(storage, run)
        if not status.is_finished or not all((folder / name).exists() for name in RECORDS):
            raise ConfigError(f"{path}: {run.name}: {status.damage or 'its files are not all there'}")
        for name, entry in manifest.files.items():
            there = about["files"].get(f"{STORAGE}/{folder.name}/{name}")
            if there is not None and there[SHA256] != entry.sha256:
                raise ConfigError(f"{path}: {run.name}: {name} is not the file that its {RUN_MANIFEST} lists")
        check_paths(path, run)
        _check_rows(path, run, folder)
        # The author's scores are read for the comparison, and then replaced by those of the records.
        scores[run.run_id] = read_scores(folder, run.run_id)
        write_scores(run, storage)
    check_texts(path, storage.root)
    # Called for their errors: the preset and the plugins exist and can be read.
    grid.read_preset()
    stored_plugins.read_plugin_files(grid.path, runs)
    return Bundle(path, digest, grid, storage, runs, str(about.get("fedgrid")), about["files"], scores)


def _check_rows(path: Path, run: RunConfig, folder: Path) -> None:
    """Check that the records of a run can be read, and are of all of its rounds and clients."""
    rounds = find_last_round(folder, run)
    try:
        for file, expected in ((ROUNDS, rounds), (CLIENTS, rounds * run.clients)):
            if (rows := len(read_table(folder, Path(file).stem))) != expected:
                raise ConfigError(
                    f"{path}: {run.name}: {file} has {rows or 'no'} rows, not {expected}: ask its author for "
                    "another bundle"
                )
        read_records(folder)
    except RecordsError as error:
        raise ConfigError(f"{path}: {error}".replace(f"{folder.parent}/", "")) from error


def _check_manifest(path: Path, run: RunConfig, manifest: Manifest) -> None:
    """Check that a manifest is a finished run's, and names only its files, as names are joined to paths.

    A run that stops early (`training.stop_after`) has fewer rounds than its configuration.
    """
    names = {CONFIG, ROUNDS, CLIENTS, TIMES}
    fewest = run.training.rounds if run.training.stop_after is None else 1
    if (
        not manifest.is_finished
        or manifest.rounds != run.training.rounds
        or not isinstance(manifest.rounds_done, int)
        or not fewest <= manifest.rounds_done <= manifest.rounds
        or not all(name in names or STATE.fullmatch(name) for name in manifest.files)
        or not all(isinstance(each.size, int) for each in manifest.files.values())
        or not all(isinstance(files, list) for files in manifest.states.values())
        or not all(name in manifest.files for files in manifest.states.values() for name in files)
    ):
        raise ConfigError(f"{path}: {run.name}: {RUN_MANIFEST} does not list the files of this run")


def check_paths(path: Path, run: RunConfig) -> None:
    """Check that a run names data by their content, and nothing of this machine by a path."""
    kinds = names.KINDS.split("|")
    for text in (run.dataset, run.split.path or "", *_yield_texts(run.algorithm.settings)):
        if text.partition(":")[0] in kinds and ":" in text and not names.is_content_name(text):
            raise ConfigError(f"{path}: {run.name} names {text:.200} by its path: no bundle does")


def check_texts(path: Path, folder: Path) -> None:
    """Check the texts in the JSON files and tables of a bundle that was unpacked into a folder.

    Once imported, they are shown on the user's terminal as they are: none may control it.

    Raises:
        ConfigError: A text has control characters, or a file cannot be read.
    """
    for file in sorted(folder.rglob("*.*")):
        try:
            texts = [text for text in _yield_file_texts(file) if CONTROL_CHARACTERS.search(text)]
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: {file.name} cannot be read: {str(error):.200}") from error
        if texts:
            name = file.relative_to(folder).as_posix()
            raise ConfigError(f"{path}: {name} has control characters, in {texts[0]!r:.200}: no bundle has")


def _yield_file_texts(file: Path) -> Iterator[str]:
    """Yield each text in a file."""
    if file.suffix == ".json":
        yield from _yield_texts(json.loads(file.read_bytes()))
    elif file.suffix == ".jsonl":
        for line in file.read_bytes().splitlines():
            yield from _yield_texts(json.loads(line))
    elif file.suffix == ".parquet":
        # Names of columns are shown in tables too.
        with file.open("rb") as data:
            table = read_parquet(data, lambda schema: schema.names)
        for name, column in zip(table.column_names, table.columns, strict=True):
            yield name
            if pa.types.is_string(column.type):
                yield from filter(None, column.unique().to_pylist())


def _yield_texts(value: Any) -> Iterator[str]:
    """Yield each text in a value of JSON, with keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _yield_texts([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _yield_texts(inner)
