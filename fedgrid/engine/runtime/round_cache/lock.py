"""A lock on a round: of several runs that need the same round, one computes it and the others wait.

The lock is a file that exists once. It is stale if its holder is a process of this machine that has ended, or
if the file has not changed for `EXPIRES_AFTER` while another process watched it: the holder hangs, or its
machine is gone. A stale file is deleted. If two processes hold one lock nevertheless (both deleted a stale
one, or a machine slept), both compute the same round: the lock saves time, and no result depends on it.

No file is locked for this: if a process deletes a file that it has locked while another one opens it, the NFS
client of Linux 6.1 may repeat its LOCK request for ever, and all that want the file hang.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from fedgrid.engine.runtime.leases.held_file import HeldFile, Observer, current_holder, link, temporary_beside
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock

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
        path = self._file.path
        try:
            if (holder := current_holder(path)) is not None:
                if not self._observer.is_gone(path, holder.about, (holder.text, path.stat().st_mtime)):
                    return False
                path.unlink()
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary_beside(path, json.dumps(self._file.holder()), self._file.token) as mine:
                link(mine, path)
        except (FileExistsError, FileNotFoundError):
            return False  # Another process has just taken it, or given it back.
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
                self._file.delete()

    def _renew(self) -> bool:
        # It goes on even if the file is not ours at present: a network file system may show an old one.
        self._file.renew(lambda file: os.utime(file.fileno()))
        return self._clock.now() - self._taken_at < LONGEST
