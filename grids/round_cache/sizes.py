"""Sizes in bytes as people write and read them: 200GB, 1.5 GiB."""

import re

DECIMAL = ("B", "KB", "MB", "GB", "TB")
BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
BYTES = {
    unit.lower(): base**power
    for base, units in ((1000, DECIMAL), (1024, BINARY))
    for power, unit in enumerate(units)
}
"""Unit, in lower case -> bytes."""
WRITTEN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Return the bytes that `text` stands for; a number alone is bytes.

    Raises:
        ValueError: if it is no size, or less than a byte.
    """
    found = WRITTEN.fullmatch(text.strip())
    size = int(float(found[1]) * BYTES.get(found[2].lower() or "b", 0)) if found else 0
    if size < 1:
        units = ", ".join((*DECIMAL, *BINARY[1:]))
        raise ValueError(f"{text!r} is no size: expected a number and a unit, as in 200GB; units: {units}")
    return size


def size(count: int) -> str:
    """Return bytes with three digits and a decimal unit: 0 B, 41.3 MB, 120 GB."""
    value, power = float(count), 0
    while value >= 999.5 and power < len(DECIMAL) - 1:
        value, power = value / 1000, power + 1
    digits = 0 if not power else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {DECIMAL[power]}"
