"""Storage of runs and grids: a folder, or a URI (s3, gs, hdfs, fsspec's) with a local mirror."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from errno import EACCES
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import NamedTemporaryFile
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from fedgrid.engine.federation.errors import ConfigError, DeniedError, RunError, StorageError, is_denied
from fedgrid.engine.runtime.storage.atomic import ASIDE, PARTIAL, disk_errors, flush_to_disk, replace_files
from fedgrid.engine.runtime.storage.clock import Patience
from fedgrid.engine.runtime.storage.remote import Remote, first_line
from fedgrid.engine.runtime.storage.user_files import find_cache_folder, make_absolute
from fedgrid.manifest import MANIFEST, FileEntry
from fedgrid.redaction import redact_secrets

MARKS = re.compile(
    r"[^/]+/(manifest|failed|scores|mlflow|config|imported|tags)\.json|grids/[^/]+/[^/]+|storage\.json"
)
"""Small files with the progress of runs and grids, without their records."""
_MISSPELT_URI = re.compile(r"(s3a?|gc?s|hdfs|abfss?|az|file|https?)(?::/?|//)(?!/)(.+)", re.IGNORECASE)
"""A URI without its colon or its slashes: it would silently be a folder here."""
_DATABASE = re.compile(r"(sqlite|postgresql|mysql|mssql)\b[+\w]*:", re.IGNORECASE)
"""An MLflow store, which users give in place of a folder."""
OWN = re.compile(r"grids|cache|drivers|encoders|tensorboard|storage\.json|.+-[0-9a-f]{12}", re.DOTALL)
"""Names that belong to a storage: its folders, and those of its runs (`run_folder.build_folder_path`)."""
PULLS = 10
"""How often a run is fetched again whose manifest changes meanwhile: once a second at most."""
GIVE_UP_AFTER = 300.0
"""Seconds for which a launched grid tries again to reach its storage."""
Content: TypeAlias = bytes | Callable[[Path], object]
"""The bytes of a file, or a function that writes them to a path: tables may be larger than the memory."""
T = TypeVar("T")


@dataclass(frozen=True)
class Storage:
    """A folder of runs and grids: bytes by name, which is relative to `root`, with slashes.

    With a URI, `root` is this machine's mirror of it, in which only storages write.

    **What a storage guarantees, and what not**

    *Atomicity.* Every file of `put` is written under a temporary name (`atomic.PARTIAL`), then renamed. So
    each name has its old content or its new one, complete, whichever process is killed and whenever it is
    read. Object stores replace objects atomically too. On other remote file systems a process that is
    killed while it sends a file may leave a truncated one, which its checksum reveals. Several files of one
    `put` are no transaction: after a kill the first of them may be new and the others old.

    *Order.* Files of one `put` get their names in the given order, first at the URI, then here, and the calls
    of a process take effect one after the other. What makes other files count therefore comes last. A run's
    manifest does: files that it lists are never changed, new content gets a new name, and a file is deleted
    only when neither the manifest nor the one before it needs it (`run_folder`).

    *What a reader sees.* Readers take no locks. They read a manifest, then the files that it lists, and
    compare sizes and checksums. If one is missing or different and the manifest has been replaced meanwhile,
    they start again (`manifest.read_segments`), so they see all of a round or nothing. Files that no manifest
    lists do not count. `log.txt` is appended in place and may lack its last lines. Cache entries and encoders
    carry a checksum of their own (`sealed_arrays`).

    *Power cuts.* With `is_flushed`, which is the default, content is on the disk before it gets its name, and
    the names are when `put` returns. Entries of the round cache are not flushed: one that is lost or damaged
    costs time and changes no number.

    *Visibility at a URI.* When `put`, `push` or `remove` returns, the change is at the URI, and every later
    `read`, `list_sizes` and `list_files` of any machine sees it, as far as the store itself is consistent
    (S3, GCS and HDFS are). All other reading is from the mirror, which shows what the last `pull`, `refresh`
    or `pull_marks` brought. `pull` fetches the files of a run before its manifest, and again if the manifest
    has changed meanwhile, so that manifest and files of the mirror are of one round. A file of the mirror
    that is not at the URI has been deleted there, and is deleted here. If a file cannot be sent, no file of
    that `put` gets its name in the mirror; the URI may have the first of them.

    *Locks.* A storage has none, and the last writer of a name wins. Which driver may write which runs is
    settled by leases, which are files of the storage and hold across machines (`leases.lease`). A run has one
    writer; if a second one is left behind, both write the same rounds with the same bytes, and each checks
    the manifest before it replaces it (`RunFolder._update_manifest`). Locks of the round cache hold among
    processes that share `root`: at a URI two machines may compute the same round, with the same result.

    *After a crash.* There may be temporary files, which no listing shows, and files that no manifest lists.
    Later launches delete both. Nothing else has to be repaired.

    *Failures.* A call that cannot reach its URI is retried as `patience` says, then raises RunError. A
    failure of this machine's disk raises OSError, which callers convert (`atomic.disk_errors`).
    """

    root: Path
    """The folder, or the mirror of the URI on this machine."""
    uri: str | None = None
    """Where the files are; None: in `root`."""
    patience: Patience = field(default=Patience(), compare=False)
    """How long failed calls are retried; by default not at all."""

    @classmethod
    def from_text(cls, text: str | Path) -> "Storage":
        """Open the storage at a path or a URI, SCHEME://PLACE.

        Raises:
            ConfigError: a `file://` URI names another host, a URI lacks a sign, or there can be no folder of
                that name, as where a file lies.
        """
        storage = cls._parse_place(text)
        if not (nearest := storage._find_nearest()).is_dir():
            raise ConfigError(
                f"--storage {storage}: {nearest} is a file, and a storage is a folder or a URI; name another"
            )
        return storage

    @classmethod
    def _parse_place(cls, text: str | Path) -> "Storage":
        """Parse a path or a URI, whatever lies there."""
        if slip := _MISSPELT_URI.match(str(text)):
            scheme, place = slip.groups()
            raise ConfigError(f"--storage {text}: did you mean {scheme}://{place}? a folder: ./{text}")
        if _DATABASE.match(str(text)):
            raise ConfigError(
                f"--storage {text}: runs are files, so name a folder or a URI such as s3://bucket/runs; "
                "MLFLOW_TRACKING_URI takes the address of a database"
            )
        if "://" not in str(text):
            return cls(make_absolute(text, "--storage"))
        parts = urlsplit(str(text))
        if parts.scheme == "file":
            if parts.netloc not in ("", "localhost"):
                raise ConfigError(f"--storage {text}: a file is on this host; write file:///PATH, or PATH")
            return cls(Path(unquote(parts.path)).absolute())
        uri = parts.scheme + str(text)[len(parts.scheme) :].rstrip("/")  # S3:// is s3://.
        # A digest, since a URI has characters that a folder's name cannot have.
        return cls(find_cache_folder() / "storage" / sha256(uri.encode()).hexdigest()[:16], uri)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle no mirror: another machine has another user and cache folder for it."""
        return _restore_storage, (self.uri or str(self.root), self.patience.give_up_after)

    def __str__(self) -> str:
        return redact_secrets(self.uri) if self.uri else str(self.root)

    def with_patience(
        self, warn: Callable[[str], None] = lambda _: None, is_stopped: Callable[[], bool] = lambda: False
    ) -> "Storage":
        """Copy this storage for a launched grid.

        Calls of the copy are retried for five minutes, or until `is_stopped`; `warn` gets a line for the
        first failure.
        """
        return replace(self, patience=Patience(GIVE_UP_AFTER, warn, is_stopped=is_stopped))

    def retry_call(self, call: Callable[[], T]) -> T:
        """Call `call`, and retry it as `patience` says if it cannot read or write this storage.

        Raises:
            RunError: it still fails.
        """
        try:
            return self.patience.retry_call(call, (OSError, pa.ArrowException, StorageError))
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{self}: {first_line(error)}; run the same command again to continue") from error

    def put(self, files: Mapping[str, Content], *, is_flushed: bool = True) -> dict[str, FileEntry]:
        """Write files, at the URI and here; folders on the way to them are made.

        Each name has its old or its new content, complete, whenever this process is killed. Files take their
        places in the given order, first at the URI, so that one that makes the others count comes last.

        Args:
            files: Name -> its bytes, or what writes them to a path.
            is_flushed: Whether they are on the disk before they take their places, and outlast a power cut;
                True by default.

        Returns:
            The size and the checksum of each.

        Raises:
            OSError: one cannot be written here; none is there then, unless it happens between two renames.
            RunError: the URI cannot be written; here all files are as before.
        """
        # 1. Write all files under temporary names.
        paths = [self.root / name for name in files]
        folders = {path.parent for path in paths}
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        entries = {}
        with replace_files(*paths, is_flushed=is_flushed) as temporaries:
            for (name, content), path in zip(files.items(), temporaries, strict=True):
                if isinstance(content, bytes):
                    path.write_bytes(content)
                    entries[name] = FileEntry.from_bytes(content)
                else:
                    content(path)
                    entries[name] = FileEntry.from_path(path)
            # 2. Send them to the URI while they have no name here: the mirror must never be ahead of the URI,
            # since other machines only see that. The block's end then flushes and renames them.
            for name, path in zip(files, temporaries, strict=True):
                self._send_file(path, name)
        # 3. A rename is on the disk once its folder is flushed.
        for folder in folders if is_flushed else ():
            flush_to_disk(folder)
        return entries

    def push(self, *names: str) -> None:
        """Copy files that were not written by `put` to the URI, in the given order.

        Raises:
            RunError: the URI cannot be written.
        """
        for name in names:
            self._send_file(self.root / name, name)

    def _send_file(self, path: Path, name: str) -> None:
        """Copy a file to the URI, if there is one."""
        if self.uri:
            self._retry_remote("written", partial(self._remote.send, path, name))

    def remove(self, *names: str) -> None:
        """Delete files, or folders with their content, at the URI and here; missing ones are ignored.

        Raises:
            RunError: the URI, or this folder, cannot be written.
        """
        # First at the URI: a process that is killed in between leaves a file in the mirror, which the next
        # pull deletes. In the other order the file would come back.
        if self.uri and names:
            self._retry_remote("written", partial(self._remote.delete, names))
        with disk_errors(self.root):
            for path in (self.root / name for name in names):
                if path.is_dir() and not path.is_symlink():
                    rmtree(path)
                else:
                    path.unlink(missing_ok=True)

    def name_path(self, path: Path) -> str:
        """Build the name of a file or folder below `root`."""
        return path.relative_to(self.root).as_posix()

    def refresh(self, *names: str) -> None:
        """Fetch these files from the URI; delete those in the mirror that are missing there.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            self._retry_remote("read", partial(self._refresh_once, names))

    def _refresh_once(self, names: Sequence[str]) -> None:
        """Fetch files once, as `refresh`."""
        # Listed before the URI is: a file that another process puts here meanwhile is then not taken for a
        # deleted one.
        here = [name for name in names if (self.root / name).exists()]
        self._update_mirror(self._remote.find_files(names), here)

    def pull(self, folder: str, skip: tuple[str, ...] = (), only: tuple[str, ...] = ("",)) -> None:
        """Make a folder equal to that at the URI: fetch files that differ, delete those missing there.

        Damaged files that were set aside are left alone. A run's manifest comes in any case, and the files
        that it lists are those of the same round: what is written meanwhile is fetched again.

        Args:
            folder: Its name.
            skip: Starts of names that are left alone, such as `state-`; none by default.
            only: Starts of names, of which others are left alone; all by default.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            self._retry_remote("read", partial(self._pull_once, folder, skip, only))

    def _pull_once(self, folder: str, skip: tuple[str, ...], only: tuple[str, ...]) -> None:
        """Fetch a folder once, as `pull`."""
        manifest = f"{folder}/{MANIFEST}"
        skipped = tuple(f"{folder}/{start}" for start in (*skip, ASIDE))
        chosen = (*(f"{folder}/{start}" for start in only), manifest)

        def is_wanted_name(name: str) -> bool:
            """Check whether a file is to be fetched, or deleted if it is missing at the URI."""
            return name.startswith(chosen) and not name.startswith(skipped)

        before: bytes | None = b""
        now = self._remote.read(manifest)
        for _ in range(PULLS):
            if before == now:
                break
            here = [name for name in self._list_folder(folder) if is_wanted_name(name)]
            files = {
                name: info for name, info in self._remote.list_files(folder).items() if is_wanted_name(name)
            }
            # The manifest comes after the files that it lists. A writer may replace both meanwhile; the loop
            # then begins again, until the manifest is the same before and after.
            last = {manifest: files.pop(manifest)} if manifest in files else {}
            self._update_mirror(files, [name for name in here if name not in last])
            self._update_mirror(last, [])
            before, now = now, self._remote.read(manifest)

    def read(self, name: str) -> bytes | None:
        """Read a file's bytes, None if it is missing; bypasses the mirror.

        Raises:
            OSError, RunError: the file cannot be read.
        """
        if self.uri:
            return self._retry_remote("read", partial(self._remote.read, name))
        with suppress(FileNotFoundError):
            return (self.root / name).read_bytes()
        return None

    def list_sizes(self, folder: str) -> Mapping[str, int]:
        """List the sizes in bytes of all complete files under a folder, at the URI if there is one.

        Raises:
            RunError: the URI cannot be read.
        """
        return {name: size for name, (size, _) in self.list_files(folder).items()}

    def list_files(self, folder: str) -> Mapping[str, tuple[int, int]]:
        """List size in bytes and time of the last change, in nanoseconds, of the files that `list_sizes`
        lists.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            infos = self._retry_remote("read", partial(self._remote.list_files, folder))
            return {name: (info.size, info.mtime_ns or 0) for name, info in infos.items()}
        facts = {}
        for name in self._list_folder(folder):
            with suppress(FileNotFoundError):  # It has just been deleted.
                about = (self.root / name).stat()
                facts[name] = about.st_size, about.st_mtime_ns
        return facts

    def pull_marks(self) -> None:
        """Pull the small files with the progress of each run and grid.

        Raises:
            RunError: the URI cannot be read.
        """
        if self.uri:
            self._retry_remote("read", self._pull_marks_once)

    def _pull_marks_once(self) -> None:
        """Fetch those files once."""
        paths = chain(self.root.glob("*"), self.root.glob("*/*"), self.root.glob("grids/*/*"))
        here = [name for name in self._select_complete(paths) if MARKS.fullmatch(name)]
        files = {name: info for name, info in self._remote.list_files("").items() if MARKS.fullmatch(name)}
        self._update_mirror(files, here)

    def check_rights(self) -> None:
        """Check that a run could be stored here, as far as that is visible without a write.

        Raises:
            ConfigError: it could not; with the cause.
        """
        if not self.uri and not os.access(self._find_nearest(), os.W_OK | os.X_OK):
            raise self._build_refusal(os.strerror(EACCES))

    def _build_refusal(self, cause: str) -> ConfigError:
        """Build the error of a storage that cannot be written."""
        return ConfigError(f"--storage {self} cannot be written to: {cause}; name another folder or URI")

    def _find_nearest(self) -> Path:
        """Find the folder itself, or the nearest one above it that exists."""
        return next(path for path in (self.root, *self.root.parents) if path.exists())

    def check_writable(self) -> None:
        """Check that the storage can be written, without leaving a file.

        Raises:
            ConfigError: it cannot; with the cause.
        """
        try:
            with NamedTemporaryFile(dir=self._find_nearest(), prefix=PARTIAL) as empty:
                if self.uri:
                    path = Path(empty.name)
                    self._remote.send(path, path.name)
                    self._remote.delete([path.name])
        except (OSError, pa.ArrowException) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
            raise self._build_refusal(cause) from error

    @property
    def _remote(self) -> Remote:
        """The files at the URI."""
        assert self.uri is not None, "a plain folder has no other files"
        return Remote(self.uri)

    def _retry_remote(self, what: str, work: Callable[[], T]) -> T:
        """Call `work`, and retry it as `patience` says if it cannot reach the URI."""

        def attempt_once() -> T:
            """Call `work` once, and name the storage in its errors."""
            try:
                return work()
            except (OSError, pa.ArrowException) as error:
                kind = DeniedError if is_denied(error) else StorageError
                raise kind(f"{self} cannot be {what} ({first_line(error)})") from error

        try:
            return self.patience.retry_call(attempt_once, (StorageError,))
        except StorageError as error:
            # `retry_call` tries a StorageError again; here that has been done.
            raise RunError(f"{error}; run the same command again to continue") from error.__cause__

    def _list_folder(self, folder: str) -> list[str]:
        """List the complete files under a folder of `root`."""
        return self._select_complete((self.root / folder).rglob("*"))

    def _select_complete(self, paths: Iterable[Path]) -> list[str]:
        """Select the files that are completely written, by their names."""
        names = [self.name_path(path) for path in paths if path.is_file()]
        return [name for name in names if PARTIAL not in name]

    def _update_mirror(self, files: Mapping[str, fs.FileInfo], here: Sequence[str]) -> None:
        """Fetch files of the URI that differ; delete those `here` that are not among them."""
        for name in here:
            if name not in files:
                (self.root / name).unlink(missing_ok=True)
        # Each fetch waits for the network most of the time.
        with ThreadPoolExecutor(16) as threads:
            fetched = [
                threads.submit(self._remote.fetch, info, self.root / name) for name, info in files.items()
            ]
        for result in fetched:
            result.result()


def _restore_storage(text: str, give_up_after: float) -> Storage:
    """Open a pickled storage on the machine that unpickles it."""
    return replace(Storage.from_text(text), patience=Patience(give_up_after))
