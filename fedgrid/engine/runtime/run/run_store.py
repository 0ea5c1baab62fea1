"""Writes the files of a run and then its manifest, at the storage's URI too.

The order is what makes a crash harmless. New files get names that no manifest lists, and are flushed; then
the manifest is replaced; then files go that neither it nor the one before it needs. At a URI files are sent
in the same order. How it is read meanwhile: `fedgrid.manifest`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path

from fedgrid.engine.runtime.storage.atomic import flush, replacing, set_aside
from fedgrid.engine.runtime.storage.format import DamagedFile, read_errors
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import (
    BEFORE,
    CLIENTS,
    MANIFEST,
    ROUNDS,
    SEGMENT,
    STATE,
    TIMES,
    FileEntry,
    Manifest,
    read_manifest,
)

Write = Callable[[Path], object]
"""Writes a file to a path."""


class RunStore:
    """The files of one run, as its writer sees them."""

    def __init__(self, storage: Storage, path: Path) -> None:
        self.path = path
        self._storage = storage

    def stored(self) -> Manifest | None:
        """Return the manifest of the storage, that at its URI if it has one; None without.

        Raises:
            OSError, RunError, ConfigError: it cannot be used.
        """
        path = self.path / MANIFEST
        if not self._storage.uri:
            try:
                with read_errors(path):
                    return read_manifest(self.path)
            except FileNotFoundError:
                return None
        data = self._storage.read(f"{self.path.name}/{MANIFEST}")
        with read_errors(path):
            return None if data is None else Manifest.of_text(data)

    def forget_unsent(self) -> None:
        """Delete the manifests of a run in the mirror whose URI has none: its writer was killed before."""
        if self._storage.uri and self._storage.read(f"{self.path.name}/{MANIFEST}") is None:
            for name in (MANIFEST, BEFORE):
                (self.path / name).unlink(missing_ok=True)

    def put(self, files: Mapping[str, Write]) -> dict[str, FileEntry]:
        """Write files that no manifest lists yet, and return what one is to say of them.

        Raises:
            OSError, RunError: one cannot be written; none is there then.
        """
        with replacing(*(self.path / name for name in files)) as temporaries:
            for write, path in zip(files.values(), temporaries, strict=True):
                write(path)
            entries = {name: _entry(path) for name, path in zip(files, temporaries, strict=True)}
        flush(self.path)
        self.push(*files)
        return entries

    def replace(self, base: Manifest | None, manifest: Manifest) -> bool:
        """Replace the manifest, whose files are there; return False if the stored one is no longer `base`.

        Files of rounds that neither it nor `base` needs are deleted.

        Raises:
            OSError, RunError: it cannot be written; the one before is still there then.
        """
        if _text(self.stored()) != _text(base):
            return False
        self._write(base or manifest, manifest)
        return True

    def reset(self, manifest: Manifest) -> None:
        """Replace a manifest of which something is damaged, whatever it says.

        Raises:
            OSError, RunError: it cannot be written.
        """
        self._write(manifest, manifest)

    def _write(self, before: Manifest, manifest: Manifest) -> None:
        with replacing(self.path / BEFORE, self.path / MANIFEST) as paths:
            for path, each in zip(paths, (before, manifest), strict=True):
                path.write_text(each.text())
        flush(self.path)
        self.push(BEFORE, MANIFEST)
        self.sweep({*manifest.files, *before.needed()})

    def sweep(self, needed: Collection[str]) -> None:
        """Delete records and states that are not needed; a process that was killed may have left them."""
        names = (path.name for path in self.path.iterdir())
        self.delete(sorted(name for name in names if is_of_rounds(name) and name not in needed))

    def delete(self, names: Sequence[str]) -> None:
        """Delete files, at the URI too; missing ones are ignored."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        if names:
            self._storage.remove(*(f"{self.path.name}/{name}" for name in names))

    def set_aside(self, names: Sequence[str]) -> None:
        """Move files into a folder for damaged ones; missing ones are ignored."""
        moved = set_aside(self.path, names)
        if moved:
            self.push(*(new for _, new in moved))
            self._storage.remove(*(f"{self.path.name}/{old}" for old, _ in moved))

    def push(self, *names: str) -> None:
        """Send files to the URI, if there is one, in this order."""
        self._storage.push(*(f"{self.path.name}/{name}" for name in names))


def is_of_rounds(name: str) -> bool:
    """Return whether a file of this name in a run's folder is one of its records and states."""
    return bool(name in (ROUNDS, CLIENTS, TIMES) or SEGMENT.fullmatch(name) or STATE.fullmatch(name))


def read_before(folder: Path) -> Manifest | None:
    """Return the manifest before the last one, None if there is none that can be used."""
    try:
        with read_errors(folder / BEFORE):
            return read_manifest(folder, BEFORE)
    except (FileNotFoundError, DamagedFile):
        return None


def _entry(path: Path) -> FileEntry:
    with path.open("rb") as file:
        return FileEntry(path.stat().st_size, file_digest(file, "sha256").hexdigest())


def _text(manifest: Manifest | None) -> str | None:
    return None if manifest is None else manifest.text()
