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
from fedgrid.engine.runtime.integrity.made_with import MadeWith, extend_parts
from fedgrid.engine.runtime.plugins.run_algorithm import list_own_columns
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.failure import Failure
from fedgrid.engine.runtime.run.records import Records, encode_table
from fedgrid.engine.runtime.run.resume import ResumePoint, find_resume_point
from fedgrid.engine.runtime.storage.atomic import delete_partial, disk_errors, set_aside, unlink_copies
from fedgrid.engine.runtime.storage.format import (
    DamagedFile,
    UnreadableFile,
    check_run,
    load_manifest,
    read_errors,
    unseal_file,
)
from fedgrid.engine.runtime.storage.storage import Content, Storage
from fedgrid.manifest import (
    CONFIG,
    MANIFEST,
    PREVIOUS_MANIFEST,
    ROUNDS,
    FileEntry,
    Manifest,
    check_size,
    is_round_file,
    open_listed,
)
from fedgrid.record_columns import build_schemas
from fedgrid.redaction import redact_secrets
from fedgrid.sealed_json import seal_values

FAILED, LOG = "failed.json", "log.txt"
LONGEST, SHOWN = 255, 40
"""Bytes of a name that a file system takes, and characters of one in a message."""


def build_folder_path(root: Path, config: RunConfig) -> Path:
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


def find_last_round(folder: Path, config: RunConfig) -> int:
    """Find the last round of the run in a folder; for one that has stopped early, what its manifest says."""
    if config.training.stop_after is not None:
        with suppress(FileNotFoundError, DamagedFile, UnreadableFile):
            manifest = load_manifest(folder)
            if manifest.is_finished:
                return manifest.rounds_done
    return config.training.rounds


class RunFolder:
    """Reads and writes one run's folder.

    A run has one writer. A killed driver can leave a second one behind for a while. Both then write the same
    rounds, and the slower one skips those that are already stored.
    """

    def __init__(self, storage: Storage, config: RunConfig) -> None:
        self.path = build_folder_path(storage.root, config)
        """The folder."""
        self.config = config
        self._storage = storage

    @cached_property
    def _records(self) -> Records:
        """The records of the rounds to come."""
        # Made when they are needed: `status` reads thousands of folders only to see whether they are done.
        return Records(self.path, build_schemas(list_own_columns(self.config)))

    def load_manifest(self) -> Manifest | None:
        """Load the run's manifest, None if the run has written nothing.

        Raises:
            OtherVersion, DamagedFile, UnreadableFile: it cannot be used.
        """
        try:
            return load_manifest(self.path)
        except FileNotFoundError:
            return None

    @property
    def is_done(self) -> bool:
        """Whether the run has finished all of its rounds; a run with a damaged manifest has not."""
        return (stored := self._load_undamaged()) is not None and stored.is_finished

    @property
    def rounds_done(self) -> int:
        """Number of stored rounds; 0 for a run with a damaged manifest."""
        return 0 if (stored := self._load_undamaged()) is None else stored.rounds_done

    def _load_undamaged(self) -> Manifest | None:
        """Load the manifest, None if there is none or it is damaged."""
        try:
            return self.load_manifest()
        except (DamagedFile, UnreadableFile):
            return None

    def check_config(self) -> None:
        """Check that the stored configuration, if there is one, is this run's.

        Raises:
            ConfigError: it is another one.
        """
        path = self.path / CONFIG
        with suppress(FileNotFoundError), read_errors(path):
            if path.read_bytes() != self._format_config().encode():
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
                self._put_files({CONFIG: self._format_config().encode()})
            self._continue_from(point)
            if images := own_images.seal_places(self.config.own_images):
                self._put_files({own_images.PLACES: images.encode()})
            self._remove_failure()
        return point.run_state

    def _continue_from(self, point: ResumePoint) -> None:
        """Load the records of a resume point; set damaged files aside, and list those that are left."""
        manifest, run_state = point.manifest, point.run_state
        self._records.begin_files(1)
        if manifest is not None and run_state is not None:
            number = run_state.rounds_done
            self._records.resume_after(manifest, number)
            if number < manifest.rounds_done:
                states = {each: names for each, names in manifest.states.items() if each <= number}
                manifest = replace(manifest, is_finished=False, states=states)
                manifest = self._write_files(manifest, number, self._records.build_newest_files())
        # In this order: the reason is in the log before files move. At a URI the copies of damaged files are
        # sent before the files go, so that a kill in between loses none.
        self.log(*(f"warning: {line}" for line in point.warnings))
        if moved := set_aside(self.path, point.files_to_set_aside):
            self._push_files(*(new for _, new in moved))
            self._remove_files([old for old, _ in moved])
        if manifest is None:
            entry = FileEntry.from_bytes(self._format_config().encode())
            manifest = Manifest(self.config.run_id, self.config.training.rounds, files={CONFIG: entry})
            self._replace_manifest(manifest, manifest)
        elif point.warnings:
            self._replace_manifest(manifest, manifest)

    def record_made_with(self, now: MadeWith, rounds_done: int, *, accept: bool = False) -> None:
        """Record in the manifest what the rounds to come are made with; called after `open`.

        With `accept`, other code, versions or machines than before are accepted, and noted.

        Raises:
            DataError: the rounds so far were made with other images.
            ConfigError: they were made with something else that is not accepted.
            RunError: it cannot be written.
        """

        def add_part(base: Manifest) -> Manifest:
            """Add a part to the manifest, if what rounds are made with differs from the last one."""
            before = base.made_with if rounds_done else ()
            parts, notes = extend_parts(self.config.name, before, now, rounds_done, accept=accept)
            self.log(*(f"warning: {note}" for note in notes))
            return base if parts == base.made_with else replace(base, made_with=parts)

        self._update_manifest(add_part)

    def save_rounds(self, rounds: Sequence[tuple[RoundRecord, RunState]]) -> None:
        """Store further rounds: their records and the states to keep, then the manifest that lists them.

        Raises:
            RunError: they cannot be written; the folder is then as after a round before, and the same call
                can be made again.
        """
        for place, (record, run_state) in enumerate(rounds, 1):
            rows = {"rounds": [record.round], "clients": record.clients, "timings": [record.timing]}
            self._records.add_round(run_state.rounds_done, rows)
            # One manifest for all rounds of the call, except that a full file of records must be listed
            # before the next one begins.
            if place == len(rounds) or self._records.is_full:
                self._update_manifest(partial(self._write_states, [state for _, state in rounds[:place]]))
        self.log(*(f"warning: {warning}" for record, _ in rounds for warning in record.warnings))

    def store_first_rounds(self, run_state: RunState, tables: Mapping[str, pa.Table]) -> None:
        """Store the first rounds of a run without any, with the records of table -> rows.

        Raises:
            RunError: they cannot be written.
        """
        self._records.hold_tables(tables)
        self._update_manifest(partial(self._write_states, [run_state]))

    def put_tables(self, tables: Mapping[str, pa.Table]) -> None:
        """Store the records of all rounds of a run that has been computed elsewhere, without its states.

        Raises:
            RunError: they cannot be written.
        """
        files = {f"{name}.parquet": encode_table(table) for name, table in tables.items()}
        self._update_manifest(lambda base: base.with_files(self._put_files(files), rounds_done=base.rounds))

    def has_tables(self, tables: Mapping[str, pa.Table]) -> bool:
        """Check whether these are the records of the run, by what its manifest says."""
        stored = self._load_undamaged()
        return stored is not None and all(
            stored.files.get(f"{name}.parquet") == FileEntry.from_bytes(encode_table(table))
            for name, table in tables.items()
        )

    def finish(self) -> None:
        """Mark the run as finished; one that stops early (`training.stop_after`) with the rounds that it has.

        Raises:
            RunError: a round is missing, or it cannot be written.
        """

        def mark_finished(base: Manifest) -> Manifest:
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
                base = self._write_files(base, rounds, self._records.build_joined_files(base, rounds))
            return replace(base, is_finished=True)

        with disk_errors(self.path):
            # A finished run never goes back to a round before, so files that only the manifest before lists
            # go too.
            self._delete_unneeded(self._update_manifest(mark_finished).files)
            self._remove_failure()
            self.log("finished")

    def mark_failed(self, cause: str, attempts: int) -> None:
        """Mark the run as failed after `attempts` attempts; `open` removes the mark."""
        failure = seal_values({"run_id": self.config.run_id, **asdict(Failure(cause, attempts))})
        with disk_errors(self.path):
            self._put_files({FAILED: failure.encode()})

    def read_failure(self) -> Failure | None:
        """Read why the run failed, None if it has not.

        Raises:
            OtherVersion: another fedgrid wrote it.
        """
        try:
            values = unseal_file(self.path / FAILED)
            check_run(self.path / FAILED, values.pop("run_id", None), self.config.run_id)
            return Failure(**values)
        except FileNotFoundError:
            return None
        except (DamagedFile, UnreadableFile):
            return Failure(f"{FAILED} is damaged; see {LOG}", 0)

    def find_damage(self) -> str | None:
        """Find what is wrong with the files here of a finished run, in one line, None if nothing is.

        A state may be missing, which only further work on its models needs, and of its tensors, which are
        large, only the sizes are compared: their readers compare checksums. At a URI the mirror has only what
        has been pulled: what is missing is no damage there.

        Raises:
            OtherVersion: another fedgrid wrote them.
        """
        try:
            if (stored := self.load_manifest()) is None:
                return None
            for name in stored.files:
                path = self.path / name
                if (name.startswith("state-") or self._storage.uri) and not path.exists():
                    continue
                try:
                    self._check_file(stored, name)
                except DamagedFile:
                    # The mirror may have the file of an earlier run.
                    if not self._storage.uri:
                        raise
                    self._storage.refresh(f"{self.path.name}/{name}")
                    if path.exists():
                        self._check_file(stored, name)
        except (DamagedFile, UnreadableFile) as error:
            return str(error)
        return None

    def _check_file(self, manifest: Manifest, name: str) -> None:
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
                    file.writelines(f"{now} {redact_secrets(message)}\n" for message in messages)
            self._push_files(LOG)

    def _format_config(self) -> str:
        """Format the configuration as the content of its file."""
        return json.dumps(self.config.written(), indent=2, sort_keys=True) + "\n"

    def _write_states(self, states: Sequence[RunState], base: Manifest) -> Manifest:
        """Write states, all of whose rounds are among the records that are held, unless `base` has them."""
        # A second writer of the same run, or a call after a failed write, may have stored some already. Older
        # states than the last two would be deleted at once.
        new = [state for state in states if state.rounds_done > base.rounds_done][-checkpoint.LISTED_STATES :]
        if not new:
            return base
        number = new[-1].rounds_done
        is_last = number == self.config.training.rounds
        records: Mapping[str, Content] = (
            self._records.build_joined_files(base, number) if is_last else self._records.build_newest_files()
        )
        return self._write_files(
            base, number, records, {state.rounds_done: checkpoint.build_state_files(state) for state in new}
        )

    def _write_files(
        self,
        base: Manifest,
        rounds_done: int,
        records: Mapping[str, Content],
        states: Mapping[int, Mapping[str, Content]] = MappingProxyType({}),
    ) -> Manifest:
        """Write records up to a round, the newest or all, and states; return the manifest that lists them."""
        state_files = {name: content for files in states.values() for name, content in files.items()}
        entries = self._put_files(
            # Files of memories that did not change are there already, by the same name.
            {**records, **{name: state_files[name] for name in state_files if name not in base.files}}
        )
        listed = {**base.states, **{number: [*files] for number, files in states.items()}}
        listed_states = {number: listed[number] for number in sorted(listed)[-checkpoint.LISTED_STATES :]}
        earlier = [] if ROUNDS in records else self._records.list_earlier_files(base)
        names = {CONFIG, *earlier, *(name for files in listed_states.values() for name in files)}
        files = {name: entry for name, entry in base.files.items() if name in names}
        return replace(base, rounds_done=rounds_done, states=listed_states, files=files | entries)

    def _update_manifest(self, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Replace the stored manifest by what `change` returns for it; return that.

        `change` writes the files that the new one lists. If another process has replaced the manifest
        meanwhile, it is called once more.

        Raises:
            RunError: something cannot be written; the manifest before is still there then.
        """
        with disk_errors(self.path):
            while True:
                if (base := self._read_stored_manifest()) is None:
                    raise RunError(f"{self.path}: {MANIFEST} has been deleted; run the same command again")
                manifest = change(base)
                if manifest is base:
                    return base
                # Not atomic: a second writer may replace it in this very moment. Both then list the same
                # rounds with the same bytes, so whichever comes last is right.
                if self._read_stored_manifest() == base:
                    self._replace_manifest(base, manifest)
                    return manifest

    def _read_stored_manifest(self) -> Manifest | None:
        """Read the manifest of the storage, that at its URI if it has one; None without."""
        with read_errors(self.path / MANIFEST):
            data = self._storage.read(f"{self.path.name}/{MANIFEST}")
            return None if data is None else Manifest.from_text(data)

    def _replace_manifest(self, before: Manifest, manifest: Manifest) -> None:
        """Replace the manifest, whose files are there; delete files that neither it nor `before` needs."""
        # The one before first: a kill in between leaves two equal manifests, never none.
        self._put_files({PREVIOUS_MANIFEST: before.to_text().encode(), MANIFEST: manifest.to_text().encode()})
        self._delete_unneeded({*manifest.files, *before.list_needed_files()})

    def _delete_unneeded(self, needed: Collection[str]) -> None:
        """Delete records and states that are not needed; a process that was killed may have left them."""
        names = sorted(os.listdir(self.path))
        self._remove_files([name for name in names if is_round_file(name) and name not in needed])

    def _put_files(self, files: Mapping[str, Content]) -> dict[str, FileEntry]:
        """Write files of the folder, by their names in it."""
        written = self._storage.put({self._name_in_storage(name): content for name, content in files.items()})
        return {name: written[self._name_in_storage(name)] for name in files}

    def _push_files(self, *names: str) -> None:
        """Send files of the folder to the URI."""
        self._storage.push(*map(self._name_in_storage, names))

    def _remove_files(self, names: Sequence[str]) -> None:
        """Delete files of the folder."""
        self._storage.remove(*map(self._name_in_storage, names))

    def _remove_failure(self) -> None:
        """Remove the mark of a failed run."""
        if (self.path / FAILED).exists():
            self._remove_files([FAILED])

    def _name_in_storage(self, name: str) -> str:
        """Build the name of a file of the folder in the storage."""
        return f"{self.path.name}/{name}"
