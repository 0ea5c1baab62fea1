"""How a run ended, read from its folder."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import RunFolder, folder_of
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results.times import Times, times_of

SCORES = "scores.json"
"""The final scores of a run, in its folder. Written last; faster to read than the records."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    config: RunConfig
    folder: Path
    scores: Mapping[str, Any] | None
    """Of a finished run: `RunScores.as_dict()`."""
    times: Times
    error: str | None = None


def is_finished(storage: Storage, config: RunConfig) -> bool:
    """Return whether a run has all of its rounds, and its final scores, which are written last."""
    return RunFolder(storage, config).is_done and (folder_of(storage.root, config) / SCORES).exists()


def unfinished(
    runs: Iterable[RunConfig], storage: Storage, until: Mapping[str, int] = MappingProxyType({})
) -> list[RunConfig]:
    """Return the runs that are not finished, nor have reached the round that `until` (as in `Grid`) names."""
    return [
        run
        for run in runs
        if not is_finished(storage, run)
        and (run.run_id not in until or RunFolder(storage, run).rounds_done < until[run.run_id])
    ]


def finished(root: Path, config: RunConfig, scores: Mapping[str, Any] | None = None) -> Outcome:
    """Return the outcome of a run that `is_finished`; without `scores`, they are read from its folder."""
    folder = folder_of(root, config)
    if scores is None:
        scores = json.loads((folder / SCORES).read_text())
    return Outcome(config, folder, scores, times_of(folder))


def failed(root: Path, config: RunConfig, cause: str) -> Outcome:
    """Return the outcome of a run that failed after all retries."""
    folder = folder_of(root, config)
    return Outcome(config, folder, None, times_of(folder), cause)
