"""Taking a file that one process holds at a time, from a holder that is gone if need be.

A gone holder's file is replaced by a hard link, the claim, whose name contains that holder's token. Such a
link can be made only once, so one of several processes replaces the file. If the process that made the link
has died, the next one takes over from that process in the same way.

No file is locked for this: if a process deletes a file that it has locked while another one opens it, the NFS
client of Linux 6.1 may repeat its LOCK request for ever, and all that want the file hang.
"""

import os
from collections.abc import Callable
from pathlib import Path

from fedgrid.engine.storage.held_file import Holder, current_holder, link


class OnlyOwnerError(PermissionError):
    """In a folder with the sticky bit, only the owner of a file can replace it."""

    def __init__(self, holder: Holder) -> None:
        """`holder` is the one that is gone."""
        super().__init__(str(holder))
        self.holder = holder


def take(mine: Path, path: Path, is_gone: Callable[[Holder, Path], bool]) -> bool:
    """Try to give the file `mine` the name `path`; return False if the caller has to try again.

    Args:
        is_gone: whether the holder that a file names is gone. What it raises ends the attempt.

    Raises:
        OnlyOwnerError: the holder is gone, but its file cannot be replaced.
        OSError: the files cannot be written.
    """
    if _linked(mine, path):
        return True
    stale = current_holder(path)
    if stale is None:
        return False
    claims: list[Path] = []
    last, place = stale, path
    while True:
        if not is_gone(last, place):
            return False
        claims.append(path.with_name(f"{path.name}.after-{last.token}"))
        if _linked(mine, claims[-1]):
            break
        claimant = current_holder(claims[-1])
        if claimant is None:
            return False
        last, place = claimant, claims[-1]
    return _replace(path, stale, claims)


def _replace(path: Path, stale: Holder, claims: list[Path]) -> bool:
    """Replace a gone holder's file by the last of the claims, which is ours, and delete the others."""
    now = current_holder(path)
    is_ours = now is not None and now.token == stale.token
    if is_ours:
        # The claim disappears in this replacement. As long as it exists, no other process can get here.
        try:
            os.replace(claims[-1], path)
        except PermissionError as error:
            claims[-1].unlink()
            raise OnlyOwnerError(stale) from error
        claims.pop()
    for claim in claims if is_ours else claims[-1:]:
        claim.unlink(missing_ok=True)
    return is_ours


def _linked(mine: Path, path: Path) -> bool:
    """Link a file to a name; return False if that name exists."""
    try:
        link(mine, path)
    except FileExistsError:
        return False
    return True
