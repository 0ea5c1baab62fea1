"""A grid's folder, `grids/<name>`: its runs, its progress, and whether it is asked to stop."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import ValidationError

from fedgrid.algorithms.registry import note_titles
from fedgrid.engine.errors import ConfigError, unknown
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import disk_errors, write_text
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results import kept_plugins

GRIDS = "grids"
RUNS, PRESET, PROGRESS, STOP = "runs.jsonl", "preset.yaml", "progress.json", "stop"
PLAIN_NAME = re.compile(r"\w[\w .+-]{0,99}")
ASK_EVERY = 5.0
"""Seconds between two requests to a URI for the file `stop`."""


def known(storage: Storage) -> list[str]:
    """Return the names of the grids of a storage, in alphabetical order."""
    return sorted(path.parent.name for path in (storage.root / GRIDS).glob(f"*/{RUNS}"))


class GridFolder:
    """Reads and writes one grid's folder. At a URI, `Storage.pull_marks` comes first."""

    def __init__(self, storage: Storage, name: str) -> None:
        """Name a grid of `storage`; nothing is read or written yet.

        Raises:
            ConfigError: if `name` is not a plain file name.
        """
        if not PLAIN_NAME.fullmatch(name):
            raise ConfigError(
                f"a grid named {name!r}: expected letters, digits, spaces and any of . _ + -, at most 100, "
                "the first a letter or digit; rename its file"
            )
        self.path = storage.root / GRIDS / name
        self.name = name
        self._storage = storage
        self._asked_at: float | None = None

    def keep(self, runs: Sequence[RunConfig], text: str) -> None:
        """Store the preset's `text`, its runs, their plugins, and those earlier runs that have a folder.

        Raises:
            RunError: if they cannot be written.
        """
        ids = {run.run_id for run in runs}
        earlier = self.runs() if (self.path / RUNS).exists() else ()
        still_there = [
            run for run in earlier if run.run_id not in ids and folder_of(self._storage.root, run).exists()
        ]
        for name, plugin in kept_plugins.files(self.path, runs).items():
            self.write(name, plugin)
        self.write(PRESET, text)
        self.write(RUNS, "".join(f"{run.canonical_json()}\n" for run in (*runs, *still_there)))

    def runs(self) -> tuple[RunConfig, ...]:
        """Return the runs of the grid, those of its last launch first; notes the titles of their plugins.

        Raises:
            ConfigError: if there is no such grid, or it is of another version.
        """
        path = self.path / RUNS
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError as error:
            raise self._missing() from error
        note_titles(kept_plugins.titles(self.path), kept_plugins.references(self.path))
        try:
            return tuple(RunConfig.model_validate_json(line) for line in lines)
        except ValidationError as error:
            raise ConfigError(f"{path} is damaged or of another version; move {self.path} away") from error

    def ask_to_stop(self) -> None:
        """Ask every run of the grid to stop after its current round.

        Raises:
            ConfigError: if there is no such grid.
            RunError: if it cannot be written.
        """
        if not (self.path / RUNS).exists():
            raise self._missing()
        self.write(STOP, "")

    def withdraw_stop(self) -> None:
        """Withdraw the request to stop."""
        (self.path / STOP).unlink(missing_ok=True)
        self._storage.remove(self._name(STOP))

    def stop_asked(self) -> bool:
        """Return whether the grid is asked to stop. Cheap; at a URI the answer is up to five seconds old."""
        if self._asked_at is None or monotonic() - self._asked_at >= ASK_EVERY:
            self._storage.refresh(self._name(STOP))
            self._asked_at = monotonic()
        return (self.path / STOP).exists()

    def write_progress(self, progress: Mapping[str, Any]) -> None:
        """Write the grid's progress. At a URI this takes a round trip: call it every few seconds at most.

        Raises:
            RunError: if it cannot be written.
        """
        self.write(PROGRESS, json.dumps(progress) + "\n")

    def read_progress(self) -> dict[str, Any] | None:
        """Return the last progress, None if there is none or it cannot be read."""
        self._storage.refresh(self._name(PROGRESS))
        try:
            return dict(json.loads((self.path / PROGRESS).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _missing(self) -> ConfigError:
        grids = known(self._storage)
        if not grids:
            return ConfigError(f"no grid in {self._storage} yet; `fedgrid run {self.name}` starts one")
        return unknown("grid", self.name, grids)

    def write(self, name: str, text: str) -> None:
        """Write a text file into the folder, or into a folder of it.

        Raises:
            RunError: if it cannot be written.
        """
        with disk_errors(self.path):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_text(self.path / name, text)
            self._storage.push(self._name(name))

    def _name(self, name: str) -> str:
        return Path(GRIDS, self.name, name).as_posix()
