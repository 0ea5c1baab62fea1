"""A file that names the process that holds it: the mechanism behind a storage's lease and a round's lock.

The holder renews the file from a thread. A process of this machine that has ended is detected at once. Any
other holder is gone once the file has not changed for a while by the observer's own clock (`Observer`): two
machines' clocks are never compared.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os.path import samefile
from pathlib import Path
from secrets import token_hex
from threading import Event, Thread
from typing import Any, TextIO

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.leases.processes import has_ended, identity, is_here
from fedgrid.engine.runtime.storage.atomic import PARTIAL, flush
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock

RENEWED = "renewed"
"""Key of a file's content: the reading of its machine's monotonic clock at the last renewal, as text."""


def stamp_text(content: Mapping[str, Any], clock: Clock) -> str:
    """Return the text of a file with `RENEWED`; the time in it is always as long."""
    return json.dumps({**content, RENEWED: f"{clock.now():020.6f}"}) + "\n"


def renew_stamp(file: TextIO, clock: Clock) -> None:
    """Write the time into an open file, whose length stays the same.

    Raises:
        OSError, ValueError: it cannot be read or written, or is damaged.
    """
    file.seek(0)
    os.pwrite(file.fileno(), stamp_text(read_holder(file.read()), clock).encode(), 0)
    os.fsync(file.fileno())


@dataclass(frozen=True)
class Holder:
    """The process that holds a file, as the file says."""

    text: str
    """All of the file; it changes with each renewal."""
    about: Mapping[str, Any]
    """What it says, empty if it is damaged: `token`, the identity of the process, and more."""

    def __str__(self) -> str:
        if not self.about:
            return "a damaged file"
        pid, host, user, since = (self.about.get(key, "?") for key in ("pid", "host", "user", "since"))
        return f"grid {self.about.get('what', '?')} of {user}, process {pid} on {host}, since {since}"


class HeldFile:
    """One process's side of such a file. It is held if it contains the token of this object."""

    def __init__(self, path: Path, renew_every: float, token: str = "") -> None:
        """Prepare to hold `path` and to renew it at an interval, in seconds; nothing is written yet.

        Without a `token` it gets a random one.
        """
        self.path = path
        self.token = token or token_hex(8)
        self._renew_every = renew_every
        self._stopped = Event()
        self._thread: Thread | None = None

    def holder(self) -> dict[str, Any]:
        """Return what the file says while this object holds it: token and identity of the process."""
        return {"token": self.token, **identity()}

    def is_ours(self, file: TextIO) -> bool:
        """Return whether an open file is the one that this object holds.

        Raises:
            ValueError: it is damaged.
        """
        return read_holder(file.read()).get("token") == self.token

    def renew(self, touch: Callable[[TextIO], None]) -> bool:
        """Renew the file with `touch`; return False, and change nothing, if it is gone or another's.

        The file that is written is the one that was read: a file that replaces it meanwhile is not changed.

        Raises:
            OSError, ValueError: it cannot be read or written, or is damaged.
        """
        try:
            with self.path.open("r+") as file:
                is_ours = self.is_ours(file)
                if is_ours:
                    touch(file)
                return is_ours
        except FileNotFoundError:
            return False

    def delete(self) -> bool:
        """Delete the file if it is ours; return whether it was.

        A process that was stopped for so long between the two steps that another one has taken the file over
        deletes that one's file.

        Raises:
            OSError, ValueError: it cannot be read or deleted, or is damaged.
        """
        try:
            with self.path.open() as file:
                is_ours = self.is_ours(file)
            if is_ours:
                self.path.unlink()
            return is_ours
        except FileNotFoundError:
            return False

    def start_renewing(self, renew: Callable[[], bool]) -> None:
        """Call `renew` from a thread until `stop_renewing`, or until it returns False. Errors are retried."""
        self._thread = Thread(target=self._renew_until_stopped, args=(renew,), name="renewal", daemon=True)
        self._thread.start()

    def stop_renewing(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _renew_until_stopped(self, renew: Callable[[], bool]) -> None:
        while not self._stopped.wait(self._renew_every):
            # If renewing fails, training goes on. It is retried; meanwhile another process may take the file.
            with suppress(OSError, ValueError, FedgridError):
                if not renew():
                    return


class Observer:
    """Finds out whether the holders of files are gone, from what it sees of them."""

    def __init__(self, expires_after: float, clock: Clock = CLOCK) -> None:
        """Observe files whose holders are gone after this many seconds without a change."""
        self._expires_after = expires_after
        self._clock = clock
        self._seen: dict[Path, tuple[object, float]] = {}

    def is_gone(self, path: Path, holder: Mapping[str, object], content: object) -> bool | None:
        """Return whether a file's holder is gone; None if that needs a later look.

        `holder` is what the file says about it, empty if that is damaged; with `RENEWED`, one on this machine
        is judged at once. `content` is whatever changes with each renewal.
        """
        if has_ended(holder):
            return True
        now = self._clock.now()
        seen, since = self._seen.setdefault(path, (content, now))
        if seen != content:
            self._seen[path] = content, now
            return False
        renewed = _seconds(holder.get(RENEWED)) if is_here(holder) else None
        if renewed is not None:
            return now - min(since, renewed) > self._expires_after
        return True if now - since > self._expires_after else None


@contextmanager
def temporary_beside(path: Path, text: str, token: str, mode: int = 0o666) -> Iterator[Path]:
    """Provide a temporary file beside `path` with `text`, to link to `path` or to replace it with.

    So a process that is killed meanwhile leaves no empty file of that name.
    """
    temporary = path.with_name(f"{path.name}{PARTIAL}{token}")
    try:
        temporary.touch(mode)
        temporary.write_text(text)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def link(temporary: Path, path: Path) -> None:
    """Give a finished file another name; write it there on a file system without hard links.

    Raises:
        FileExistsError: there is another file of that name.
    """
    try:
        os.link(temporary, path)
    except OSError as error:
        # A network file system may have made the link although its reply was lost.
        with suppress(OSError):
            if samefile(temporary, path):
                return
        if isinstance(error, FileExistsError):
            raise
        text = temporary.read_bytes()
        with path.open("xb") as file:
            file.write(text)


def create_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Create a whole file; if another process has just created it, leave that."""
    with temporary_beside(path, text, token_hex(4), mode) as temporary:
        flush(temporary)
        with suppress(FileExistsError):
            link(temporary, path)


def current_holder(path: Path) -> Holder | None:
    """Return the holder of a file, None if it has none. A damaged one may still be renewed by its holder."""
    try:
        text = path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None
    return holder_of(text)


def holder_of(text: str) -> Holder:
    """Return what the text of such a file says; it may be damaged."""
    try:
        return Holder(text, read_holder(text))
    except ValueError:
        return Holder(text, {})


def read_holder(text: str) -> dict[str, Any]:
    """Return what the text of such a file says about its holder.

    Raises:
        ValueError: it is damaged, or not completely written yet.
    """
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def _seconds(text: object) -> float | None:
    try:
        return float(text) if isinstance(text, str) else None
    except ValueError:
        return None
