"""What commands need of a process' address space, which `ulimit -v` and batch systems limit."""

import re
import resource

from fedgrid.engine.federation.errors import ConfigError

GB = 10**9
RAY = 16 * GB
"""Its processes reserve some 14, most of it for shared memory that they never fill."""
REPORT = 3 * GB
"""With less, OpenBLAS ends the process without a word of ours."""
NEEDS = (
    f"status, runs and show need 0.5 GB, report {REPORT // GB}, run --in-process 6, a run on Ray {RAY // GB}"
)
SHORTAGE = re.compile(
    r"map segment|allocate memory|allocate \w+ bytes|zero-fill|start new thread|Thread creation failed"
)
"""What libraries say that cannot be loaded, or start no thread, for want of memory."""


def check(needed: int) -> None:
    """Check that this process may reserve so many bytes, `RAY` or `REPORT`.

    Raises:
        ConfigError: the address space is limited to less.
    """
    limit = _limit()
    if limit is not None and limit < needed:
        raise ConfigError(_line(limit))


def shortage(error: BaseException) -> str:
    """Return a line about an error whose cause is a want of memory; empty if it is another one."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, MemoryError) or SHORTAGE.search(str(one)):
            limit = _limit()
            if limit is None:
                return "not enough memory is free; close programs, and the same command continues"
            return _line(limit)
        one = one.__cause__ or one.__context__
    return ""


def _line(limit: int) -> str:
    return (
        f"the address space is limited to {limit / GB:.1f} GB (ulimit -v), too little: {NEEDS}; "
        "`ulimit -v unlimited`, and the same command continues"
    )


def _limit() -> int | None:
    """Return the bytes that this process may map, None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
