"""A lock on a round: of several runs that need the same round, one computes it and the others wait.

The lock is a file that exists once. Another process deletes it if its holder is gone. If two processes hold
one lock nevertheless (both have deleted that of a dead holder, or a machine slept), both compute the same
round: the lock saves time, and no result depends on it.
"""

from contextlib import suppress
from pathlib import Path

from fedgrid.engine.runtime.leases.held_file import HeldFile, Observer
from fedgrid.engine.runtime.storage.atomic import create_file
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock


class RoundLock(HeldFile):
    """A lock that this process can take once. Call `release` in any case."""

    def __init__(self, path: Path, clock: Clock = CLOCK) -> None:
        super().__init__(path, clock=clock)
        self._observer = Observer(clock)
        self.is_held = False
        """Whether this object holds the lock."""

    def try_take(self) -> bool:
        """Try to take the lock; return whether this object holds it.

        Where the file cannot be written, every process holds the lock: they compute alone rather than wait
        for ever.
        """
        if self.is_held:
            return True
        try:
            with suppress(FileNotFoundError):
                # 1. If there is a file whose holder is gone, delete it. That its holder lives may take a
                # minute to see.
                if not self._observer.is_gone(str(self.path), self.path.read_bytes()):
                    return False
                self.path.unlink()
            # 2. Create the file. Of several processes that got here, exactly one does.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Not flushed: a power cut ends the holder too.
            if not create_file(self.path, self.format_text(), flushed=False):
                return False
        except FileNotFoundError:
            return False  # Another process has just deleted the folder.
        except OSError:
            self.is_held = True
            return True
        self.is_held = True
        self.start_renewing()
        return True

    def release(self) -> None:
        """Give the lock back, if this object holds it."""
        if self.is_held:
            self.is_held = False
            super().release()
