"""Whether two launches ask for the same: a digest of what their file and options say.

A file that says the same adds to what it asked for before, as with another `--filter` or other `--seeds`.
One that was edited, or has another `--set`, replaces it: its earlier runs are superseded
(`grids.results.asked`).
"""

import json
from hashlib import sha256

from fedgrid.grids.presets.axes import Choice
from fedgrid.grids.presets.expand import Description
from fedgrid.grids.presets.grid import OPTIONS


def digest_of(described: Description, narrowed: Choice, source: str) -> str:
    """Return a digest of what a file, its bases, `--set` and `--tuned` say; lines and comments do not count.

    Args:
        described: the content of the file, before options change its axes, with the changes of `--set`.
        narrowed: the file's `filter`.
        source: as in `Asks`.
    """
    axes = {axis: [item.value for item in items] for axis, items in described.axes.items()}
    content = (
        {} if source == OPTIONS else axes,
        narrowed,
        {key: value for key, (value, _) in described.fixed.items()},
        [(override.when, override.then) for override in described.overrides],
        described.excluded,
        [change.text for change in described.changes],
    )
    return sha256(json.dumps(content, default=_plain).encode()).hexdigest()


def _plain(value: object) -> object:
    """Return what JSON has in place of a set, or of a date that YAML has read."""
    return sorted(value) if isinstance(value, frozenset) else str(value)
