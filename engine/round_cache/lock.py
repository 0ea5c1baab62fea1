"""A lock on a round: of several runs that need the same round, one computes it and the others wait.

The lock is a file that exists once. It is stale if its holder is a process of this machine that has ended, or
if the file has not changed for `EXPIRES_AFTER` while another process watched it: the holder hangs, or its
machine is gone. If two processes hold one lock nevertheless (a machine that slept), both compute the same
round: the lock saves time, and no result depends on it.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from fedgrid.engine.storage.atomic import PARTIAL
from fedgrid.engine.storage.clock import CLOCK, Clock
from fedgrid.engine.storage.held_file import HeldFile, Observer, link, read_holder

RENEW_EVERY = 10.0
"""Seconds."""
EXPIRES_AFTER = 90.0
"""Seconds without a change: more than a network file system takes to show one (60 by default)."""
LONGEST = 6 * 3600.0
"""Seconds after which a lock is no longer renewed: its holder hangs, on a disk that does not answer, say."""


class RoundLock:
    """A lock that this process can take once. Call `release` in any case."""

    def __init__(self, path: Path, clock: Clock = CLOCK) -> None:
        self._file = HeldFile(path, RENEW_EVERY)
        self._observer = Observer(EXPIRES_AFTER, clock)
        self._clock = clock
        self._taken_at = 0.0
        self.held = False

    def take(self) -> bool:
        """Try to take the lock; return whether this object holds it.

        Where the file cannot be written, every process holds the lock.
        """
        if self.held:
            return True
        try:
            while not self._create():
                if not self._file.delete_if(self._is_stale) and self._file.path.exists():
                    return False
        except OSError:
            self.held = True
            return True
        self.held = True
        self._taken_at = self._clock.now()
        self._file.start_renewing(self._renew)
        return True

    def release(self) -> None:
        """Give the lock back, if this object holds it."""
        self._file.stop_renewing()
        if self.held:
            self.held = False
            with suppress(OSError, ValueError):  # If the file cannot be deleted, it expires.
                self._file.delete_if(self._file.is_ours)

    def _create(self) -> bool:
        """Create the file with its content at once; return False if it exists.

        A process that is killed meanwhile leaves no empty lock, for which others would wait until it expires.
        """
        path, text = self._file.path, json.dumps(self._file.holder())
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}{PARTIAL}{self._file.token}")
        try:
            temporary.write_text(text)
            link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _renew(self) -> bool:
        # It goes on even if the file is not ours at present: a network file system may show an old one.
        self._file.renew(lambda file: os.utime(file.fileno()))
        return self._clock.now() - self._taken_at < LONGEST

    def _is_stale(self, file: TextIO) -> bool:
        holder = _holder(file)
        content = str(holder.get("token")), os.fstat(file.fileno()).st_mtime
        return self._observer.is_gone(self._file.path, holder, content) is True


def _holder(file: TextIO) -> dict[str, Any]:
    """Return what the file says about its holder; nothing if it is damaged or not completely written."""
    try:
        return read_holder(file.read())
    except ValueError:
        return {}
