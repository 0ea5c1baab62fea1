"""A grid's folder, `grids/<name>`: its runs, its progress, and whether it is asked to stop."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import ValidationError

from fedgrid.algorithms.registry import note_titles
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data import own_images
from fedgrid.engine.errors import ConfigError, unknown
from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import disk_errors, write_bytes
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results import kept_plugins
from fedgrid.regular_files import check_regular

GRIDS = "grids"
RUNS, PRESET, PROGRESS, STOP = "runs.jsonl", "preset.yaml", "progress.json", "stop"
FOUND = "search.json"
"""The result of a search, so far."""
PLAIN_NAME = re.compile(r"\w[\w .+-]{0,99}")
ASK_EVERY = 5.0
"""Seconds between two requests to a URI for the file `stop`."""


def check_source(grid: Grid, storage: Storage) -> None:
    """Check that a grid of that name, if there is one, comes from the same preset.

    Raises:
        ConfigError: it comes from another file with another content, or it cannot be read.
    """
    folder = GridFolder(storage, grid.name)
    if not (grid.source and (folder.path / RUNS).exists()):
        return
    before = folder.source()
    if before in ("", grid.source) or (folder.path / PRESET).read_bytes() == grid.text.encode():
        return
    raise ConfigError(
        f"the grid {grid.name} in {storage} comes from {before}, not from {grid.source}: --name OTHER makes "
        f"this a grid of its own, --name {grid.name} adds it to that one"
    )


def list_grids(storage: Storage) -> list[str]:
    """Return the names of the grids of a storage, in alphabetical order."""
    return sorted(path.parent.name for path in (storage.root / GRIDS).glob(f"*/{RUNS}"))


class GridFolder:
    """Reads and writes one grid's folder. At a URI, `Storage.pull_marks` comes first."""

    def __init__(self, storage: Storage, name: str) -> None:
        """Name a grid of `storage`; nothing is read or written yet.

        Raises:
            ConfigError: if `name` is not a plain file name, or leads out of the storage by a link.
        """
        if not PLAIN_NAME.fullmatch(name):
            raise ConfigError(
                f"a grid named {name!r}: expected letters, digits, spaces and any of . _ + -, at most 100, "
                "the first a letter or digit; rename its file"
            )
        self.path = storage.root / GRIDS / name
        for folder in (self.path.parent, self.path):
            if folder.is_symlink():
                raise ConfigError(f"{folder} is a link: what belongs to a storage lies in its folder")
        self.name = name
        self._storage = storage
        self._asked_at: float | None = None

    def keep(self, runs: Sequence[RunConfig], text: str, source: str = "") -> None:
        """Store the preset's `text`, its runs, their plugins, and those earlier runs that have a folder.

        `source` is where the preset comes from, as in `Grid`.

        Raises:
            ConfigError: if what is there cannot be read.
            RunError: if they cannot be written.
        """
        ids = {run.run_id for run in runs}
        earlier = self.runs() if (self.path / RUNS).exists() else ()
        still_there = [
            run for run in earlier if run.run_id not in ids and folder_of(self._storage.root, run).exists()
        ]
        for name, plugin in kept_plugins.files(self.path, runs).items():
            self.write(name, plugin)
        if images := own_images.sealed(name for run in (*runs, *still_there) for name in run.own_images):
            self.write(own_images.PLACES, images)
        self.write(PRESET, text)
        lines = "".join(f"{run.canonical_json()}\n" for run in (*runs, *still_there))
        head = seal({"source": source, "runs": sha256(lines.encode()).hexdigest()})
        self.write(RUNS, head + lines)

    def runs(self) -> tuple[RunConfig, ...]:
        """Return the runs of the grid, those of its last launch first; notes the titles of their plugins.

        Raises:
            ConfigError: if there is no such grid, it is damaged, or it is of another version.
        """
        _, lines = self._read()
        note_titles(kept_plugins.titles(self.path), kept_plugins.references(self.path))
        own_images.know_from(self.path)
        try:
            return tuple(map(RunConfig.model_validate_json, lines.splitlines()))
        except ValidationError as error:
            raise ConfigError(
                f"{self.path / RUNS} was written by another version of fedgrid; move {self.path} away"
            ) from error

    def lists(self, runs: Sequence[RunConfig]) -> bool:
        """Return whether the grid was launched before, with these runs among its own."""
        if not (self.path / RUNS).exists():
            return False
        return {run.run_id for run in runs} <= {run.run_id for run in self.runs()}

    def source(self) -> str:
        """Return where the preset of the last launch came from, as `keep` got it.

        Raises:
            ConfigError: as `runs`.
        """
        return self._read()[0]

    def _read(self) -> tuple[str, bytes]:
        """Return the source, and the runs, a line each."""
        path = self.path / RUNS
        try:
            check_regular(path)
            head, _, lines = path.read_bytes().partition(b"\n")
        except FileNotFoundError as error:
            raise self._missing() from error
        except OSError as error:
            raise ConfigError(f"{path} is not read: {error}") from error
        try:
            about = unseal(path, head)
            if about.get("runs") != sha256(lines).hexdigest():
                raise DamagedFile(path, "its runs are not those that were written")
        except DamagedFile as error:
            raise ConfigError(f"{error}; move {self.path} away: its runs stay where they are") from error
        return str(about.get("source", "")), lines

    def stopped_early(self) -> frozenset[str]:
        """Return the ids of the runs that a search has stopped early; none of another grid.

        Raises:
            ConfigError: if the search's result is damaged.
        """
        try:
            trials = unseal(self.path / FOUND)["trials"]
        except FileNotFoundError:
            return frozenset()
        except DamagedFile as error:
            raise ConfigError(f"{error}; repeat the search's command to write it again") from error
        return frozenset(
            run_id for trial in trials if trial["stopped_at"] is not None for run_id in trial["run_ids"]
        )

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
        self.write(PROGRESS, seal(progress))

    def read_progress(self) -> dict[str, Any] | None:
        """Return the last progress, None if there is none or it cannot be read."""
        self._storage.refresh(self._name(PROGRESS))
        try:
            return unseal(self.path / PROGRESS)
        except (FileNotFoundError, DamagedFile):
            return None

    def _missing(self) -> ConfigError:
        grids = list_grids(self._storage)
        if not grids:
            return ConfigError(f"no grid in {self._storage} yet; `fedgrid run {self.name}` starts one")
        return unknown("grid", self.name, grids)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file into the folder, or into a folder of it.

        Raises:
            RunError: if it cannot be written.
        """
        with disk_errors(self.path):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path / name, content.encode() if isinstance(content, str) else content)
            self._storage.push(self._name(name))

    def _name(self, name: str) -> str:
        return Path(GRIDS, self.name, name).as_posix()
