"""The folder of a run, in formats that need no fedgrid: configuration, manifest, states, records, log.

The order of its writes is what makes a crash harmless. New files get names that no manifest lists, and are
flushed; then the manifest is replaced; then files go that neither it nor the one before it needs. At a URI
files are sent in the same order. How it is read meanwhile: `fedgrid.manifest`.

Nothing damaged is deleted: it is moved into a folder `damaged-<number>` of the run's folder. A file of
another version is refused, and nothing is changed.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.integrity.made_with import MadeWith, changes
from fedgrid.engine.runtime.plugins.algorithm_of import own_columns
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.failure import Failure
from fedgrid.engine.runtime.run.records import Records, table_bytes
from fedgrid.engine.runtime.run.resume import ResumePoint, find_resume_point
from fedgrid.engine.runtime.storage.atomic import delete_partial, disk_errors, set_aside, unlink_copies
from fedgrid.engine.runtime.storage.format import (
    DamagedFile,
    UnreadableFile,
    check_run,
    manifest_of,
    read_errors,
    unseal,
)
from fedgrid.engine.runtime.storage.storage import Content, Storage
from fedgrid.manifest import (
    BEFORE,
    CONFIG,
    MANIFEST,
    ROUNDS,
    FileEntry,
    Manifest,
    check_size,
    is_of_rounds,
    open_listed,
)
from fedgrid.record_columns import schemas
from fedgrid.redaction import redacted
from fedgrid.sealed_json import seal

FAILED, LOG = "failed.json", "log.txt"
LONGEST, SHOWN = 255, 40
"""Bytes of a name that a file system takes, and characters of one in a message."""


def folder_of(root: Path, config: RunConfig) -> Path:
    """Build the path of a run's folder under a storage's `root`.

    Raises:
        ConfigError: its name contains a slash, or is too long.
    """
    name = f"{config.name}-{config.run_id}"
    if "/" in name or "\0" in name:
        raise ConfigError(f"a run named {name!r}: expected no / in the names of data set and algorithm")
    if (length := len(name.encode())) > LONGEST:
        raise ConfigError(
            f"dataset {config.short_dataset[:SHOWN]}...: a run's folder would have a name of {length} bytes, "
            f"and {LONGEST} are the most; rename the file or folder of the data",
            ("dataset",),
        )
    return root / name


def last_round(folder: Path, config: RunConfig) -> int:
    """Find the last round of the run in a folder; for one that has stopped early, what its manifest says."""
    if config.training.stop_after is not None:
        with suppress(FileNotFoundError, DamagedFile, UnreadableFile):
            manifest = manifest_of(folder)
            if manifest.is_finished:
                return manifest.rounds_done
    return config.training.rounds


class RunFolder:
    """Reads and writes one run's folder.

    A run has one writer. A killed driver can leave a second one behind for a while. Both then write the same
    rounds, and the slower one skips those that are already stored.
    """

    def __init__(self, storage: Storage, config: RunConfig) -> None:
        self.path = folder_of(storage.root, config)
        """The folder."""
        self.config = config
        self._storage = storage

    @cached_property
    def _records(self) -> Records:
        """The records of the rounds to come."""
        # Made when they are needed: `status` reads thousands of folders only to see whether they are done.
        return Records(self.path, schemas(own_columns(self.config)))

    def manifest(self) -> Manifest | None:
        """Load the run's manifest, None if the run has written nothing.

        Raises:
            OtherVersion, DamagedFile, UnreadableFile: it cannot be used.
        """
        try:
            return manifest_of(self.path)
        except FileNotFoundError:
            return None

    @property
    def is_done(self) -> bool:
        """Whether the run has finished all of its rounds; a run with a damaged manifest has not."""
        return (stored := self._undamaged()) is not None and stored.is_finished

    @property
    def rounds_done(self) -> int:
        """Number of stored rounds; 0 for a run with a damaged manifest."""
        return 0 if (stored := self._undamaged()) is None else stored.rounds_done

    def _undamaged(self) -> Manifest | None:
        """Load the manifest, None if there is none or it is damaged."""
        try:
            return self.manifest()
        except (DamagedFile, UnreadableFile):
            return None

    def check_config(self) -> None:
        """Check that the stored configuration, if there is one, is this run's.

        Raises:
            ConfigError: it is another one.
        """
        path = self.path / CONFIG
        with suppress(FileNotFoundError), read_errors(path):
            if path.read_bytes() != self._config_text().encode():
                raise ConfigError(
                    f"{path} is damaged, or of another fedgrid; update fedgrid, or move {self.path} away"
                )

    def open(self) -> RunState | None:
        """Prepare the folder for further rounds; return the newest undamaged state with all of its records.

        Loads the records up to that round. If the records are damaged, the run starts again from the
        beginning, which gives the same numbers. None: it starts from zero.

        Raises:
            ConfigError: the folder belongs to another configuration, or another version wrote it.
            RunError: every state is damaged, or the folder cannot be written.
        """
        with disk_errors(self.path):
            # 1. Read and decide, before anything is changed: what another version has written stays as it is.
            self._storage.pull(self.path.name)
            self.check_config()
            point = find_resume_point(self.path)
            # 2. Clean up and write. The configuration comes first, because it says which run the folder is
            # of.
            self.path.mkdir(parents=True, exist_ok=True)
            delete_partial(self.path)
            if not (self.path / CONFIG).exists():
                self._put({CONFIG: self._config_text().encode()})
            self._go_on_from(point)
            if images := own_images.seal_places(self.config.own_images):
                self._put({own_images.PLACES: images.encode()})
            self._remove_failure()
        return point.run_state

    def _go_on_from(self, point: ResumePoint) -> None:
        """Load the records of a resume point; set damaged files aside, and list those that are left."""
        manifest, run_state = point.manifest, point.run_state
        self._records.begin(1)
        if manifest is not None and run_state is not None:
            number = run_state.rounds_done
            self._records.go_on_after(manifest, number)
            if number < manifest.rounds_done:
                states = {each: names for each, names in manifest.states.items() if each <= number}
                manifest = replace(manifest, is_finished=False, states=states)
                manifest = self._with_files(manifest, number, self._records.newest())
        # In this order: the reason is in the log before files move. At a URI the copies of damaged files are
        # sent before the files go, so that a kill in between loses none.
        self.log(*(f"warning: {line}" for line in point.warnings))
        if moved := set_aside(self.path, point.aside):
            self._push(*(new for _, new in moved))
            self._remove([old for old, _ in moved])
        if manifest is None:
            entry = FileEntry.of(self._config_text().encode())
            manifest = Manifest(self.config.run_id, self.config.training.rounds, files={CONFIG: entry})
            self._replace(manifest, manifest)
        elif point.warnings:
            self._replace(manifest, manifest)

    def note_made_with(self, now: MadeWith, rounds_done: int, *, accept: bool = False) -> None:
        """Record in the manifest what the rounds to come are made with; called after `open`.

        With `accept`, other code, versions or machines than before are accepted, and noted.

        Raises:
            DataError: the rounds so far were made with other images.
            ConfigError: they were made with something else that is not accepted.
            RunError: it cannot be written.
        """

        def change(base: Manifest) -> Manifest:
            """Add a part to the manifest, if what rounds are made with differs from the last one."""
            before = base.made_with if rounds_done else ()
            parts, notes = changes(self.config.name, before, now, rounds_done, accept=accept)
            self.log(*(f"warning: {note}" for note in notes))
            return base if parts == base.made_with else replace(base, made_with=parts)

        self._update(change)

    def save(self, rounds: Sequence[tuple[RoundRecord, RunState]]) -> None:
        """Store further rounds: their records and the states to keep, then the manifest that lists them.

        Raises:
            RunError: they cannot be written; the folder is then as after a round before, and the same call
                can be made again.
        """
        for place, (record, run_state) in enumerate(rounds, 1):
            rows = {"rounds": [record.round], "clients": record.clients, "timings": [record.timing]}
            self._records.add(run_state.rounds_done, rows)
            # One manifest for all rounds of the call, except that a full file of records must be listed
            # before the next one begins.
            if place == len(rounds) or self._records.is_full:
                self._update(partial(self._with_states, [state for _, state in rounds[:place]]))
        self.log(*(f"warning: {warning}" for record, _ in rounds for warning in record.warnings))

    def take(self, run_state: RunState, tables: Mapping[str, pa.Table]) -> None:
        """Store the first rounds of a run without any, with the records of table -> rows.

        Raises:
            RunError: they cannot be written.
        """
        self._records.hold(tables)
        self._update(partial(self._with_states, [run_state]))

    def put_tables(self, tables: Mapping[str, pa.Table]) -> None:
        """Store the records of all rounds of a run that has been computed elsewhere, without its states.

        Raises:
            RunError: they cannot be written.
        """
        files = {f"{name}.parquet": table_bytes(table) for name, table in tables.items()}
        self._update(lambda base: base.with_files(self._put(files), rounds_done=base.rounds))

    def has_tables(self, tables: Mapping[str, pa.Table]) -> bool:
        """Check whether these are the records of the run, by what its manifest says."""
        stored = self._undamaged()
        return stored is not None and all(
            stored.files.get(f"{name}.parquet") == FileEntry.of(table_bytes(table))
            for name, table in tables.items()
        )

    def finish(self) -> None:
        """Mark the run as finished; one that stops early (`training.stop_after`) with the rounds that it has.

        Raises:
            RunError: a round is missing, or it cannot be written.
        """

        def change(base: Manifest) -> Manifest:
            """Join the records of a run that stops early, and mark the manifest."""
            rounds, stop_after = base.rounds_done, self.config.training.stop_after
            if rounds < base.rounds and stop_after is None:
                raise RunError(
                    f"{self.path}: its records end with round {rounds} of {base.rounds}; run the same "
                    "command again"
                )
            if base.is_finished:
                return base
            if rounds < base.rounds:
                self.log(
                    f"stopped after round {rounds} of {base.rounds}: no better validation score in "
                    f"{stop_after} rounds"
                )
                base = self._with_files(base, rounds, self._records.joined(base, rounds))
            return replace(base, is_finished=True)

        with disk_errors(self.path):
            # A finished run never goes back to a round before, so files that only the manifest before lists
            # go too.
            self._sweep(self._update(change).files)
            self._remove_failure()
            self.log("finished")

    def fail(self, cause: str, attempts: int) -> None:
        """Mark the run as failed after `attempts` attempts; `open` removes the mark."""
        failure = seal({"run_id": self.config.run_id, **asdict(Failure(cause, attempts))})
        with disk_errors(self.path):
            self._put({FAILED: failure.encode()})

    def failure(self) -> Failure | None:
        """Read why the run failed, None if it has not.

        Raises:
            OtherVersion: another fedgrid wrote it.
        """
        try:
            values = unseal(self.path / FAILED)
            check_run(self.path / FAILED, values.pop("run_id", None), self.config.run_id)
            return Failure(**values)
        except FileNotFoundError:
            return None
        except (DamagedFile, UnreadableFile):
            return Failure(f"{FAILED} is damaged; see {LOG}", 0)

    def damage(self) -> str | None:
        """Find what is wrong with the files here of a finished run, in one line, None if nothing is.

        A state may be missing, which only further work on its models needs, and of its tensors, which are
        large, only the sizes are compared: their readers compare checksums. At a URI the mirror has only what
        has been pulled: what is missing is no damage there.

        Raises:
            OtherVersion: another fedgrid wrote them.
        """
        try:
            if (stored := self.manifest()) is None:
                return None
            for name in stored.files:
                path = self.path / name
                if (name.startswith("state-") or self._storage.uri) and not path.exists():
                    continue
                try:
                    self._check(stored, name)
                except DamagedFile:
                    # The mirror may have the file of an earlier run.
                    if not self._storage.uri:
                        raise
                    self._storage.refresh(f"{self.path.name}/{name}")
                    if path.exists():
                        self._check(stored, name)
        except (DamagedFile, UnreadableFile) as error:
            return str(error)
        return None

    def _check(self, manifest: Manifest, name: str) -> None:
        """Check the size of a file and, unless it is a state, its checksum."""
        with read_errors(self.path / name):
            check_size(self.path / name, manifest.files[name])
            if not name.startswith("state-"):
                open_listed(self.path, manifest, name).close()

    def log(self, *messages: str) -> None:
        """Append lines with the current time (UTC) to `log.txt`."""
        if messages:
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
            with disk_errors(self.path):
                unlink_copies(self.path / LOG)
                with (self.path / LOG).open("a") as file:
                    file.writelines(f"{now} {redacted(message)}\n" for message in messages)
            self._push(LOG)

    def _config_text(self) -> str:
        """Format the configuration as the content of its file."""
        return json.dumps(self.config.written(), indent=2, sort_keys=True) + "\n"

    def _with_states(self, states: Sequence[RunState], base: Manifest) -> Manifest:
        """Write states, all of whose rounds are among the records that are held, unless `base` has them."""
        # A second writer of the same run, or a call after a failed write, may have stored some already. Older
        # states than the last two would be deleted at once.
        new = [state for state in states if state.rounds_done > base.rounds_done][-checkpoint.KEEP :]
        if not new:
            return base
        number = new[-1].rounds_done
        is_last = number == self.config.training.rounds
        records: Mapping[str, Content] = (
            self._records.joined(base, number) if is_last else self._records.newest()
        )
        return self._with_files(
            base, number, records, {state.rounds_done: checkpoint.files_of(state) for state in new}
        )

    def _with_files(
        self,
        base: Manifest,
        rounds_done: int,
        records: Mapping[str, Content],
        states: Mapping[int, Mapping[str, Content]] = MappingProxyType({}),
    ) -> Manifest:
        """Write records up to a round, the newest or all, and states; return the manifest that lists them."""
        of_states = {name: content for files in states.values() for name, content in files.items()}
        entries = self._put(
            # Files of memories that did not change are there already, by the same name.
            {**records, **{name: of_states[name] for name in of_states if name not in base.files}}
        )
        listed = {**base.states, **{number: [*files] for number, files in states.items()}}
        kept = {number: listed[number] for number in sorted(listed)[-checkpoint.KEEP :]}
        earlier = [] if ROUNDS in records else self._records.earlier(base)
        names = {CONFIG, *earlier, *(name for files in kept.values() for name in files)}
        files = {name: entry for name, entry in base.files.items() if name in names}
        return replace(base, rounds_done=rounds_done, states=kept, files=files | entries)

    def _update(self, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Replace the stored manifest by what `change` returns for it; return that.

        `change` writes the files that the new one lists. If another process has replaced the manifest
        meanwhile, it is called once more.

        Raises:
            RunError: something cannot be written; the manifest before is still there then.
        """
        with disk_errors(self.path):
            while True:
                if (base := self._stored()) is None:
                    raise RunError(f"{self.path}: {MANIFEST} has been deleted; run the same command again")
                manifest = change(base)
                if manifest is base:
                    return base
                # Not atomic: a second writer may replace it in this very moment. Both then list the same
                # rounds with the same bytes, so whichever comes last is right.
                if self._stored() == base:
                    self._replace(base, manifest)
                    return manifest

    def _stored(self) -> Manifest | None:
        """Read the manifest of the storage, that at its URI if it has one; None without."""
        with read_errors(self.path / MANIFEST):
            data = self._storage.read(f"{self.path.name}/{MANIFEST}")
            return None if data is None else Manifest.of_text(data)

    def _replace(self, before: Manifest, manifest: Manifest) -> None:
        """Replace the manifest, whose files are there; delete files that neither it nor `before` needs."""
        # The one before first: a kill in between leaves two equal manifests, never none.
        self._put({BEFORE: before.text().encode(), MANIFEST: manifest.text().encode()})
        self._sweep({*manifest.files, *before.needed()})

    def _sweep(self, needed: Collection[str]) -> None:
        """Delete records and states that are not needed; a process that was killed may have left them."""
        names = sorted(os.listdir(self.path))
        self._remove([name for name in names if is_of_rounds(name) and name not in needed])

    def _put(self, files: Mapping[str, Content]) -> dict[str, FileEntry]:
        """Write files of the folder, by their names in it."""
        written = self._storage.put({self._name(name): content for name, content in files.items()})
        return {name: written[self._name(name)] for name in files}

    def _push(self, *names: str) -> None:
        """Send files of the folder to the URI."""
        self._storage.push(*map(self._name, names))

    def _remove(self, names: Sequence[str]) -> None:
        """Delete files of the folder."""
        self._storage.remove(*map(self._name, names))

    def _remove_failure(self) -> None:
        """Remove the mark of a failed run."""
        if (self.path / FAILED).exists():
            self._remove([FAILED])

    def _name(self, name: str) -> str:
        """Build the name of a file of the folder in the storage."""
        return f"{self.path.name}/{name}"
