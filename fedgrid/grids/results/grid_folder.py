"""A grid's folder, `grids/<name>`: its definition, its progress, and a request to stop it.

The definition is what the last launch requests, extensions included. A launch of the same content, as with
another `--where` or more seeds, or of another file under the grid's name extends it; one of an edited file or
plugin, or with another override, replaces it. The runs of earlier launches outside it are superseded: they
stay in the storage until `fedgrid delete --superseded` removes them, and are in no report unless it is
written with `--superseded`.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal_file
from fedgrid.engine.runtime.storage.hints import explain_missing_grid, format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.grid import DICT_SOURCE, Grid, RequestedRuns
from fedgrid.grids.results import stored_plugins
from fedgrid.sealed_json import seal_values

GRIDS = "grids"
RUNS, PRESET, PROGRESS, STOP = "runs.jsonl", "preset.yaml", "progress.json", "stop"
SEARCH_RESULT = "search.json"
"""Name of the file with the result of a search, so far."""
PLAIN_NAME = re.compile(r"\w[\w .+-]{0,99}")
STOP_POLL_SECONDS = 5.0
"""Seconds between two requests to a URI for the file `stop`."""
SUPERSEDED = "superseded"
REQUESTED = "asked"
"""Key of `runs.jsonl`: the source of the definition -> its digest, and the ids of its runs."""
_REQUESTED_RUNS = TypeAdapter(dict[str, RequestedRuns])


@dataclass(frozen=True)
class GridDefinition:
    """The definition of a grid, and the runs of earlier launches that are no part of it."""

    runs: tuple[RunConfig, ...] = ()
    """The runs of the definition, those of the last launch first."""
    superseded: tuple[RunConfig, ...] = ()
    """The runs outside it."""
    source: str = ""
    """As in `Grid`, of the last launch."""
    digest: str = ""
    """As in `RequestedRuns`, of the last file that was launched; empty before the first one."""

    @property
    def all_runs(self) -> tuple[RunConfig, ...]:
        """All runs of the grid, superseded ones included."""
        return (*self.runs, *self.superseded)

    def after_launch(
        self,
        runs: Sequence[RunConfig],
        source: str,
        requested: RequestedRuns | None,
        edited: Collection[str] = (),
    ) -> "GridDefinition":
        """Build the definition after a launch of `read_runs`.

        Args:
            runs: those that are launched.
            source: as in `Grid`.
            requested: as in `Grid`.
            edited: digests of plugins of which another version is launched.
        """
        digest = requested.digest if requested else self.digest
        # An edited file replaces the definition; the same file with other seeds or another `--where`
        # extends it.
        is_edited = self.source == source and self.digest not in ("", digest)
        current = set() if is_edited else {run.run_id for run in self.runs}
        if requested:
            current |= requested.run_ids
        # A run with the former code of an edited plugin would be compared with runs of its new code.
        current -= {run.run_id for run in self.all_runs if not {*edited}.isdisjoint(run.plugin_digests)}
        ids = {run.run_id for run in runs}
        others = [run for run in self.all_runs if run.run_id not in ids]
        return GridDefinition(
            (*runs, *(run for run in others if run.run_id in current)),
            tuple(run for run in others if run.run_id not in current),
            source,
            digest,
        )


def superseded_line(grid: str, count: int, storage: Storage) -> str:
    """Format the line that counts a grid's superseded runs and names the commands to list and delete them."""
    listing = format_command(storage, "show", grid, "--superseded")
    deleting = format_command(storage, "delete", grid, "--superseded")
    return f"{superseded_words(count)}: `{listing}` lists, `{deleting}` deletes"


def superseded_words(count: int) -> str:
    """Format the sentence on superseded runs for a page, which is read where no command is at hand."""
    runs = "1 run of an earlier launch is" if count == 1 else f"{count} runs of earlier launches are"
    return f"{runs} superseded, and left out"


def list_grids(storage: Storage) -> list[str]:
    """List the names of a storage's grids in alphabetical order; a folder like `mine (copy)` is no grid."""
    # A copy made in a file manager has the same runs and would be listed as a second grid.
    names = (path.parent.name for path in (storage.root / GRIDS).glob(f"*/{RUNS}"))
    return sorted(name for name in names if PLAIN_NAME.fullmatch(name))


class GridFolder:
    """The folder of one grid in a storage: reads and writes its files.

    At a URI, `Storage.pull_marks` comes first.
    """

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
        self._polled_at: float | None = None

    @property
    def is_there(self) -> bool:
        """Whether such a grid was launched or imported."""
        return (self.path / RUNS).exists()

    def keep(
        self,
        runs: Sequence[RunConfig],
        text: str,
        source: str = "",
        requested: RequestedRuns | None = None,
    ) -> None:
        """Store the preset's text, the definition after a launch of `read_runs`, and their plugins and
        images.

        Earlier runs stay in the definition if they have a folder.

        Args:
            runs: the runs that are launched.
            text: the text of their preset or file.
            source: as in `Grid`, empty by default.
            requested: as in `Grid`; None by default: nothing but `read_runs`.

        Raises:
            ConfigError: if what is there cannot be read.
            RunError: if the files cannot be written.
        """
        before = self.read_definition() if self.is_there else GridDefinition()
        # The plugins and images come before the list of runs: a launch that is killed between leaves files
        # that no run names, and never a run whose plugin is missing.
        for name, plugin in stored_plugins.find_missing_files(self.path, runs).items():
            self.write_file(name, plugin)
        edited = stored_plugins.find_other_versions(self.path, runs)
        launched = before.after_launch(runs, source, requested, edited)
        ids = {run.run_id for run in runs}
        current, superseded = (
            tuple(
                run for run in part if run.run_id in ids or build_folder_path(self.storage.root, run).exists()
            )
            for part in (launched.runs, launched.superseded)
        )
        after = replace(launched, runs=current, superseded=superseded)
        if images := own_images.seal_places(name for run in after.all_runs for name in run.own_images):
            self.write_file(own_images.PLACES, images)
        # `check_source` compares launches with this text, so it changes together with the list of runs.
        self.write_file(PRESET, text)
        self._write_runs(after)

    def drop_superseded(self, run_ids: Collection[str]) -> None:
        """Remove superseded runs from the grid's list of runs.

        Raises:
            ConfigError: if what is there cannot be read.
            RunError: if it cannot be written.
        """
        stored = self.read_definition()
        left = tuple(run for run in stored.superseded if run.run_id not in run_ids)
        self._write_runs(replace(stored, superseded=left))

    def _write_runs(self, stored: GridDefinition) -> None:
        """Write the list of runs with a head that holds the digest of its lines."""
        lines = "".join(f"{run.canonical_json()}\n" for run in stored.all_runs)
        head = {
            "source": stored.source,
            REQUESTED: {
                stored.source: {"digest": stored.digest, "run_ids": [run.run_id for run in stored.runs]}
            },
            "runs": sha256(lines.encode()).hexdigest(),
        }
        self.write_file(RUNS, seal_values(head) + lines)

    def read_runs(self) -> tuple[RunConfig, ...]:
        """Read the runs of the grid's definition, those of its last launch first.

        Raises:
            ConfigError: as `read_definition`.
        """
        return self.read_definition().runs

    def is_launched(self, grid: Grid) -> bool:
        """Check whether the grid was launched before, and `grid` leaves its definition as it is."""
        if not self.is_there:
            return False
        stored = self.read_definition()
        after = stored.after_launch(grid.runs, grid.source, grid.requested)
        before, now = ({run.run_id for run in each.runs} for each in (stored, after))
        return before == now and after.digest == stored.digest

    def describe_consequence(self, grid: Grid) -> str:
        """Describe how many finished runs a launch of `grid` supersedes; empty if it supersedes none.

        Runs to which it adds rounds do not count, nor those of an edited plugin.
        """
        stored = self.read_definition() if self.is_there else GridDefinition()
        after = {run.run_id for run in stored.after_launch(grid.runs, grid.source, grid.requested).runs}
        lost = sum(
            RunFolder(self.storage, run).is_done
            for run in stored.runs
            if run.run_id not in after and not any(longer.adds_rounds(run) for longer in grid.runs)
        )
        runs = "1 finished run" if lost == 1 else f"{lost} finished runs"
        what = f"these settings supersede {runs} of {self.name}, which stay in the storage, but in no table"
        return what if lost else ""

    def check_source(self, grid: Grid, confirm: Callable[[str], str] | None = None) -> None:
        """Check that a launch of `grid` comes from the same preset or file as those before it.

        `ask` gets its `describe_consequence`, if there is one, and returns the reason to refuse it, empty to
        accept it.

        Raises:
            ConfigError: it comes from another file with another content, is refused, or cannot be read.
        """
        before = self.read_definition().source if self.is_there and not grid.is_named else ""
        if before not in ("", grid.source) and self.read_preset() != grid.text.encode():
            step = (
                "another name= makes this a grid of its own"
                if grid.source == DICT_SOURCE
                else f"--name OTHER makes this a grid of its own, --name {self.name} adds it to that one"
            )
            raise ConfigError(
                f"the grid {self.name} in {self.storage} comes from {before}, not from {grid.source}: {step}"
            )
        if confirm and (consequence := self.describe_consequence(grid)) and (refusal := confirm(consequence)):
            raise ConfigError(f"{consequence}: {refusal}")

    def read_preset(self) -> bytes:
        """Read the preset of the last launch, as `keep` got it; a `ConfigError` if that cannot be read."""
        try:
            return (self.path / PRESET).read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.path / PRESET} is not read: {error}; repeat the grid's run") from error

    def read_definition(self) -> GridDefinition:
        """Read the definition, and register the titles of the runs' plugins and the places of their images.

        Raises:
            ConfigError: if there is no such grid, it is damaged, or it is of another version.
        """
        path = self.path / RUNS
        about, lines = self._read_lines(path)
        stored_plugins.register_plugin_titles(self.path)
        own_images.load_places(self.path)
        try:
            # The ids depend on the format: in another one the same lines have other ids, of which none is
            # requested.
            every = tuple(map(RunConfig.model_validate_json, lines.splitlines()))
            requested = _REQUESTED_RUNS.validate_python(about.get(REQUESTED))
        except ValidationError as error:
            raise ConfigError(f"{path} is of another version of fedgrid; move {self.path} away") from error
        ids = {run_id for request in requested.values() for run_id in request.run_ids}
        runs = tuple(run for run in every if run.run_id in ids)
        if not runs:
            raise ConfigError(
                f"{path} names its runs by other ids: it is of another fedgrid, whose runs have another "
                f"format (here: {FORMAT}), or damaged; use that version, or move {self.path} away"
            )
        superseded = tuple(run for run in every if run.run_id not in ids)
        source = str(about.get("source", ""))
        return GridDefinition(
            runs, superseded, source, requested[source].digest if source in requested else ""
        )

    def _read_lines(self, path: Path) -> tuple[dict[str, Any], bytes]:
        """Read the head of a file and its other lines, and check that these are the lines once written."""
        try:
            head, _, lines = path.read_bytes().partition(b"\n")
        except FileNotFoundError as error:
            raise self._missing_grid_error() from error
        except OSError as error:
            raise ConfigError(f"{path} is not read: {error}") from error
        try:
            about = unseal_file(path, head)
            if about.get("runs") != sha256(lines).hexdigest():
                raise DamagedFile(path, "its runs are not those that were written")
        except DamagedFile as error:
            raise ConfigError(f"{error}; move {self.path} away: its runs stay where they are") from error
        return about, lines

    def stopped_early(self) -> frozenset[str]:
        """Read the ids of the runs that a search has stopped early; none of a grid that is no search.

        Raises:
            ConfigError: if the search's result is damaged.
        """
        try:
            trials = unseal_file(self.path / SEARCH_RESULT)["trials"]
            stopped = (trial["run_ids"] for trial in trials if trial["stopped_at"] is not None)
            return frozenset(run_id for run_ids in stopped for run_id in run_ids)
        except FileNotFoundError:
            return frozenset()
        except DamagedFile as error:
            raise ConfigError(f"{error}; repeat the search's command to write it again") from error

    def request_stop(self) -> None:
        """Write the request that every run of the grid stops after its current round.

        Raises:
            ConfigError: if there is no such grid.
            RunError: if it cannot be written.
        """
        if not self.is_there:
            raise self._missing_grid_error()
        self.write_file(STOP, "")

    def withdraw_stop(self) -> None:
        """Remove the request to stop."""
        self.storage.remove(self._storage_name(STOP))

    def is_stop_requested(self) -> bool:
        """Check whether a request to stop is there. Cheap; at a URI the answer is up to five seconds old."""
        # Each run polls after each round; a request to an object storage takes longer than a short round.
        if self._polled_at is None or monotonic() - self._polled_at >= STOP_POLL_SECONDS:
            self.storage.refresh(self._storage_name(STOP))
            self._polled_at = monotonic()
        return (self.path / STOP).exists()

    def write_progress(self, progress: Mapping[str, Any]) -> None:
        """Write the grid's progress. At a URI this takes a round trip: call it every few seconds at most.

        Raises:
            RunError: if it cannot be written.
        """
        self.write_file(PROGRESS, seal_values(progress))

    def read_progress(self) -> dict[str, Any] | None:
        """Read the last progress, None if there is none.

        Raises:
            DamagedFile, UnreadableFile: it cannot be read.
        """
        self.storage.refresh(self._storage_name(PROGRESS))
        try:
            return unseal_file(self.path / PROGRESS)
        except FileNotFoundError:
            return None

    def _missing_grid_error(self) -> ConfigError:
        """Build the error that names the storage's grids, for one that has none of this name."""
        grids = list_grids(self.storage)
        if not grids:
            return ConfigError(explain_missing_grid(self.storage, self.name))
        return unknown_name_error("grid", self.name, grids)

    def write_file(self, name: str, content: str | bytes) -> None:
        """Write a file into the folder, or into a folder of it.

        Raises:
            RunError: if it cannot be written.
        """
        with disk_errors(self.path):
            self.storage.put(
                {self._storage_name(name): content.encode() if isinstance(content, str) else content}
            )

    def _storage_name(self, name: str) -> str:
        """Format the name of a file in the storage from its name in this folder."""
        return Path(GRIDS, self.name, name).as_posix()
