"""A grid's folder, `grids/<name>`: its runs, its progress, and whether it is asked to stop."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import ValidationError

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, unknown
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.run.run_folder import RunFolder, folder_of
from fedgrid.engine.runtime.storage.atomic import disk_errors, write_bytes
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal
from fedgrid.engine.runtime.storage.hints import no_grid
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.grid import DICT, Asks, Grid
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.asked import Asked
from fedgrid.sealed_json import seal

GRIDS = "grids"
RUNS, PRESET, PROGRESS, STOP = "runs.jsonl", "preset.yaml", "progress.json", "stop"
FOUND = "search.json"
"""The result of a search, so far."""
PLAIN_NAME = re.compile(r"\w[\w .+-]{0,99}")
ASK_EVERY = 5.0
"""Seconds between two requests to a URI for the file `stop`."""


@dataclass(frozen=True)
class StoredGrid:
    """What `runs.jsonl` says."""

    every: tuple[RunConfig, ...] = ()
    """All runs, superseded ones too."""
    asked: Asked = field(default_factory=Asked)
    source: str = ""
    """As in `Grid`, of the last launch."""

    @property
    def runs(self) -> tuple[RunConfig, ...]:
        """The runs that the grid's files ask for, those of its last launch first."""
        return tuple(run for run in self.every if run.run_id in self.asked.ids)

    @property
    def superseded(self) -> tuple[RunConfig, ...]:
        """The runs of earlier launches that the grid's files no longer ask for."""
        return tuple(run for run in self.every if run.run_id not in self.asked.ids)


def list_grids(storage: Storage) -> list[str]:
    """Return the names of the grids of a storage, in alphabetical order; a folder `mine (copy)` is none."""
    names = (path.parent.name for path in (storage.root / GRIDS).glob(f"*/{RUNS}"))
    return sorted(name for name in names if PLAIN_NAME.fullmatch(name))


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
                "the first a letter or digit; choose another --name, or rename its file"
            )
        self.path = storage.root / GRIDS / name
        self.name = name
        self.storage = storage
        self._asked_at: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether such a grid was launched or imported."""
        return (self.path / RUNS).exists()

    def keep(self, runs: Sequence[RunConfig], text: str, source: str = "", asks: Asks | None = None) -> None:
        """Store the preset's `text`, its runs, their plugins, and those earlier runs that have a folder.

        `source` and `asks` are as in `Grid`.

        Raises:
            ConfigError: if what is there cannot be read.
            RunError: if they cannot be written.
        """
        before = self.read() if self.is_there else StoredGrid()
        ids = {run.run_id for run in runs}
        still_there = [
            run
            for run in before.every
            if run.run_id not in ids and folder_of(self.storage.root, run).exists()
        ]
        for name, plugin in kept_plugins.files(self.path, runs).items():
            self.write(name, plugin)
        if images := own_images.seal_places(name for run in (*runs, *still_there) for name in run.own_images):
            self.write(own_images.PLACES, images)
        self.write(PRESET, text)
        asked = before.asked.after(runs, asks, kept_plugins.names(self.path), still_there)
        self._write_runs(StoredGrid((*runs, *still_there), asked, source))

    def drop(self, run_ids: Collection[str]) -> None:
        """Let some superseded runs be no runs of the grid any longer.

        Raises:
            ConfigError: if what is there cannot be read.
            RunError: if it cannot be written.
        """
        stored = self.read()
        self._write_runs(replace(stored, every=tuple(r for r in stored.every if r.run_id not in run_ids)))

    def _write_runs(self, stored: StoredGrid) -> None:
        lines = "".join(f"{run.canonical_json()}\n" for run in stored.every)
        head = {
            "source": stored.source,
            "asked": stored.asked.as_dict(),
            "runs": sha256(lines.encode()).hexdigest(),
        }
        self.write(RUNS, seal(head) + lines)

    def runs(self) -> tuple[RunConfig, ...]:
        """Return the runs that the grid's files ask for, those of its last launch first.

        Raises:
            ConfigError: as `read`.
        """
        return self.read().runs

    def is_launched(self, grid: Grid) -> bool:
        """Return whether the grid was launched before, and a launch of `grid` asks for nothing else."""
        if not self.is_there:
            return False
        stored = self.read()
        return stored.asked.after(grid.runs, grid.asks, {}, stored.every) == stored.asked

    def consequence(self, grid: Grid) -> str:
        """Return what a launch of `grid` does to finished runs, empty if it loses none, as `Asked.loses`."""
        stored = self.read() if self.is_there else StoredGrid()
        lost = sum(RunFolder(self.storage, run).is_done for run in stored.asked.loses(grid, stored.every))
        runs = "1 finished run" if lost == 1 else f"{lost} finished runs"
        what = f"these settings supersede {runs} of {self.name}, which stay in the storage, but in no table"
        return what if lost else ""

    def check_source(self, grid: Grid, ask: Callable[[str], str] | None = None) -> None:
        """Check that a launch of `grid` comes from the same preset or file as those before it.

        `ask` gets its `consequence`, if any, and returns why that is refused, empty if it is accepted.

        Raises:
            ConfigError: it comes from another file with another content, is refused, or cannot be read.
        """
        before = self.read().source if self.is_there and not grid.is_named else ""
        if before not in ("", grid.source) and self.preset() != grid.text.encode():
            step = (
                "another name= makes this a grid of its own"
                if grid.source == DICT
                else f"--name OTHER makes this a grid of its own, --name {self.name} adds it to that one"
            )
            raise ConfigError(
                f"the grid {self.name} in {self.storage} comes from {before}, not from {grid.source}: {step}"
            )
        if ask and (consequence := self.consequence(grid)) and (refusal := ask(consequence)):
            raise ConfigError(f"{consequence}: {refusal}")

    def preset(self) -> bytes:
        """Return the preset of the last launch, as `keep` got it; a `ConfigError` if that cannot be read."""
        try:
            return (self.path / PRESET).read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.path / PRESET} is not read: {error}; repeat the grid's run") from error

    def read(self) -> StoredGrid:
        """Return what is stored; notes the titles of the runs' plugins, and where their images are.

        Raises:
            ConfigError: if there is no such grid, it is damaged, or it is of another version.
        """
        path = self.path / RUNS
        about, lines = self._read_lines(path)
        kept_plugins.know_titles(self.path)
        own_images.know_from(self.path)
        try:
            runs = tuple(map(RunConfig.model_validate_json, lines.splitlines()))
            stored = StoredGrid(runs, Asked.of(about.get("asked")), str(about.get("source", "")))
        except ValidationError as error:
            raise ConfigError(f"{path} is of another version of fedgrid; move {self.path} away") from error
        if not stored.runs:
            raise ConfigError(f"{path} is damaged (it asks for none of its runs); move {self.path} away")
        return stored

    def _read_lines(self, path: Path) -> tuple[dict[str, Any], bytes]:
        """Return the head of a file, and its other lines, which are those that were written."""
        try:
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
        return about, lines

    def stopped_early(self) -> frozenset[str]:
        """Return the ids of the runs that a search has stopped early; none of another grid.

        Raises:
            ConfigError: if the search's result is damaged.
        """
        try:
            trials = unseal(self.path / FOUND)["trials"]
            stopped = (trial["run_ids"] for trial in trials if trial["stopped_at"] is not None)
            return frozenset(run_id for run_ids in stopped for run_id in run_ids)
        except FileNotFoundError:
            return frozenset()
        except DamagedFile as error:
            raise ConfigError(f"{error}; repeat the search's command to write it again") from error

    def ask_to_stop(self) -> None:
        """Ask every run of the grid to stop after its current round.

        Raises:
            ConfigError: if there is no such grid.
            RunError: if it cannot be written.
        """
        if not self.is_there:
            raise self._missing()
        self.write(STOP, "")

    def withdraw_stop(self) -> None:
        """Withdraw the request to stop."""
        (self.path / STOP).unlink(missing_ok=True)
        self.storage.remove(self._name(STOP))

    def stop_asked(self) -> bool:
        """Return whether the grid is asked to stop. Cheap; at a URI the answer is up to five seconds old."""
        if self._asked_at is None or monotonic() - self._asked_at >= ASK_EVERY:
            self.storage.refresh(self._name(STOP))
            self._asked_at = monotonic()
        return (self.path / STOP).exists()

    def write_progress(self, progress: Mapping[str, Any]) -> None:
        """Write the grid's progress. At a URI this takes a round trip: call it every few seconds at most.

        Raises:
            RunError: if it cannot be written.
        """
        self.write(PROGRESS, seal(progress))

    def read_progress(self) -> dict[str, Any] | None:
        """Return the last progress, None if there is none.

        Raises:
            DamagedFile, UnreadableFile: it cannot be read.
        """
        self.storage.refresh(self._name(PROGRESS))
        try:
            return unseal(self.path / PROGRESS)
        except FileNotFoundError:
            return None

    def _missing(self) -> ConfigError:
        grids = list_grids(self.storage)
        if not grids:
            return ConfigError(no_grid(self.storage, self.name))
        return unknown("grid", self.name, grids)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file into the folder, or into a folder of it.

        Raises:
            RunError: if it cannot be written.
        """
        with disk_errors(self.path):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.path / name, content.encode() if isinstance(content, str) else content)
            self.storage.push(self._name(name))

    def _name(self, name: str) -> str:
        return Path(GRIDS, self.name, name).as_posix()
