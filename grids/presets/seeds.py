"""Runs that differ in their seed alone: one is checked, the others are copies of it with other seeds and ids.

To check and digest thousands of configurations takes longer than all else that `fedgrid status` does.
"""

import re
from collections.abc import Callable

from fedgrid.engine.configuration.run_config import RunConfig, canonical, id_of

WRITTEN = re.compile(r'(?<="seed":)(0|[1-9][0-9]*)(?=[,}])')
"""A seed in the canonical JSON of a run, which may have more: an algorithm may call a setting so."""

OtherSeeds = Callable[[int], RunConfig]


def other_seeds(run: RunConfig) -> OtherSeeds | None:
    """Return what makes a run with a given seed, from 0, of `run`; None if its text has several seeds."""
    parts = WRITTEN.split(canonical(run.written()))
    if len(parts) != 3:
        return None
    before, _, after = parts
    return lambda seed: run.model_copy(update={"seed": seed, "run_id": id_of(f"{before}{seed}{after}")})


def read_runs(lines: bytes) -> tuple[RunConfig, ...]:
    """Return the runs of a text with the canonical JSON of one on each line.

    Raises:
        ValidationError: a line is not the configuration of a run.
    """
    known: dict[tuple[str, str], OtherSeeds] = {}
    found = []
    for line in lines.splitlines():
        text = line.decode(errors="replace")
        parts = WRITTEN.split(text)
        kind = parts[0], parts[-1]
        if len(parts) == 3 and kind in known:
            found.append(known[kind](int(parts[1])))
            continue
        run = RunConfig.model_validate_json(line)
        found.append(run)
        # What another version wrote may have other defaults, and so another id than its text.
        copies = other_seeds(run) if run.canonical_json() == text else None
        if copies is not None:
            known[kind] = copies
    return tuple(found)
