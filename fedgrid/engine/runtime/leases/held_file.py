"""A file that names the process that holds it: the mechanism of a driver's lease and of a round's lock.

The holder renews the file from a thread, which writes the time of its machine's monotonic clock into it. A
process of this machine that has ended or hangs is detected at once. Any other holder is gone once the file
has not changed for a minute by the observer's own clock: two machines' clocks are never compared.

No file is locked for this: if a process deletes a file that it has locked while another one opens it, the NFS
client of Linux 6.1 may repeat its LOCK request for ever, and all that want the file hang.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Thread
from typing import Any

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.leases.processes import has_ended, identify_process, is_here
from fedgrid.engine.runtime.storage.clock import CLOCK, Clock

EXPIRES_AFTER = 60.0
"""Seconds without a renewal after which a holder counts as gone."""
RENEW_EVERY = EXPIRES_AFTER / 4
"""Seconds between renewals: three may fail before the file expires."""
RENEWED = "renewed"
"""Key of a file's content: the reading of its machine's monotonic clock at the last renewal, as text."""


class HeldFile:
    """A file that this process holds while it contains the token of this object."""

    def __init__(self, path: Path, token: str = "", clock: Clock = CLOCK) -> None:
        """Prepare to hold `path`; nothing is written yet.

        Args:
            path: The file.
            token: Names this holder; a random one by default.
            clock: The source of time.
        """
        self.path = path
        self.token = token or token_hex(8)
        self.content: dict[str, Any] = {}
        """Further content of the file: besides the token, the process and the time of the renewal."""
        self._clock = clock
        self._stopped = Event()
        self._thread: Thread | None = None

    def format_text(self) -> str:
        """Format the text of a file that is renewed now; the time in it is always as long."""
        renewed = f"{self._clock.now():020.6f}"
        return (
            json.dumps({"token": self.token, **identify_process(), RENEWED: renewed, **self.content}) + "\n"
        )

    def renew(self) -> bool:
        """Write the text again, as long as before; return False if the file is gone or another process's.

        The file that is written is the one that was read: a file that replaces it meanwhile is not changed.

        Raises:
            OSError: it cannot be read or written.
        """
        try:
            with self.path.open("r+b") as file:
                is_ours = read_holder(file.read()).get("token") == self.token
                if is_ours:
                    # In place and as long as before, not by a rename: that would put back a file that another
                    # process has just deleted. A reader sees the old or the new text, or a mixture of equal
                    # length.
                    os.pwrite(file.fileno(), self.format_text().encode(), 0)
                    os.fsync(file.fileno())
                return is_ours
        except FileNotFoundError:
            return False

    def start_renewing(self) -> None:
        """Call `renew` from a thread until `release`, or until it returns False; errors are retried."""
        self._thread = Thread(target=self._renew_until_stopped, name="renewal", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """End the thread, and delete the file if it is ours.

        A process that was stopped for so long between the check and the deletion that another one has taken
        the file over deletes that one's file.
        """
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(OSError):  # If it cannot be deleted, it expires.
            if read_holder(self.path.read_bytes()).get("token") == self.token:
                self.path.unlink()

    def _renew_until_stopped(self) -> None:
        """Renew the file at intervals."""
        while not self._stopped.wait(RENEW_EVERY):
            # If renewing fails, training goes on. It is retried; meanwhile another process may take the file.
            with suppress(OSError, FedgridError):
                if not self.renew():
                    return


class Observer:
    """Decides whether the holders of files are gone, from what it sees of them."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[bytes, float]] = {}

    def is_gone(self, name: str, data: bytes) -> bool | None:
        """Check whether the holder of a file is gone; None if that needs a later call.

        `data` is what the file contains now. A holder on this machine is judged at once.
        """
        holder = read_holder(data)
        # 1. A process of this machine that has ended: the kernel says so.
        if has_ended(holder):
            return True
        # 2. A file that has changed since the last call: its holder lives.
        now = self._clock.now()
        seen, since = self._seen.setdefault(name, (data, now))
        if seen != data:
            self._seen[name] = data, now
            return False
        # 3. A process of this machine that hangs: its time of renewal is by the same clock as ours.
        if is_here(holder):
            with suppress(KeyError, TypeError, ValueError):
                return now - min(since, float(holder[RENEWED])) > EXPIRES_AFTER
        # 4. One of another machine: a minute without a change, measured here.
        return True if now - since > EXPIRES_AFTER else None


def read_holder(data: bytes) -> dict[str, Any]:
    """Read what such a file says about its holder; empty if it is damaged or not completely written."""
    with suppress(ValueError):
        content = json.loads(data)
        if isinstance(content, dict):
            return content
    return {}
