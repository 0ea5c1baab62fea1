"""Check whether the process's address space, which `ulimit -v` limits, is enough for a command."""

import re
import resource

from fedgrid.engine.federation.errors import ConfigError

GB = 10**9
RAY_BYTES = 16 * GB
"""Bytes for a run on Ray: its processes reserve some 14 GB, most of it for shared memory that they never
fill."""
REPORT_BYTES = 3 * GB
"""Bytes for a report; with less, OpenBLAS ends the process without any message of fedgrid."""
NEEDS_LINE = (
    f"status, runs and show need 0.5 GB, report {REPORT_BYTES // GB}, run --in-process 6, a run on Ray "
    f"{RAY_BYTES // GB}"
)
SHORTAGE_PATTERN = re.compile(
    r"map segment|allocate memory|allocate \w+ bytes|zero-fill|start new thread|Thread creation failed"
)
"""Messages of libraries that cannot be loaded, or start no thread, for want of memory."""


def check_limit(needed: int) -> None:
    """Check that this process may reserve this number of bytes, `RAY_BYTES` or `REPORT_BYTES`.

    Raises:
        ConfigError: the address space is limited to less.
    """
    limit = _read_limit()
    if limit is not None and limit < needed:
        raise ConfigError(_format_limit(limit))


def describe_shortage(error: BaseException) -> str:
    """Describe in one line an error whose cause is a want of memory; empty for any other error."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, MemoryError) or SHORTAGE_PATTERN.search(str(one)):
            limit = _read_limit()
            if limit is None:
                return "not enough memory is free; close programs, and the same command continues"
            return _format_limit(limit)
        # The first error is often one of an import; the cause may be several exceptions below it.
        one = one.__cause__ or one.__context__
    return ""


def _format_limit(limit: int) -> str:
    """Format the limit with what commands need."""
    return (
        f"the address space is limited to {limit / GB:.1f} GB (ulimit -v), too little: {NEEDS_LINE}; "
        "`ulimit -v unlimited`, and the same command continues"
    )


def _read_limit() -> int | None:
    """Read the number of bytes that this process may map; None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
