"""A run's folder, in formats that need no fedgrid: configuration, manifest, states, records, log.

Nothing damaged is deleted: it is moved into a folder `damaged-<number>` of the run's folder. A file of
another version is refused, and nothing is changed.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, FinalError, RunError
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.integrity.made_with import MadeWith, as_listed, changes, listed_parts
from fedgrid.engine.runtime.plugins.algorithm_of import own_columns
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.failure import Failure
from fedgrid.engine.runtime.run.records import Records, table_bytes
from fedgrid.engine.runtime.run.run_store import RunStore, Write, is_of_rounds, read_before
from fedgrid.engine.runtime.storage.atomic import (
    delete_partial,
    disk_errors,
    unlink_copies,
    write_text,
)
from fedgrid.engine.runtime.storage.format import (
    DamagedFile,
    UnreadableFile,
    check_run,
    holds,
    manifest_of,
    read_errors,
    unseal,
)
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import CONFIG, MANIFEST, STATE, FileEntry, Manifest, check_size, open_listed
from fedgrid.record_columns import schemas
from fedgrid.redaction import redacted
from fedgrid.sealed_json import seal

FAILED, LOG = "failed.json", "log.txt"
LONGEST, SHOWN = 255, 40
"""Bytes of a name that a file system takes, and characters of one in a message."""


def folder_of(root: Path, config: RunConfig) -> Path:
    """Return the folder of a run under a storage's `root`.

    Raises:
        ConfigError: its name leads elsewhere, or is too long.
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
    """Return the last round of the run in a folder: of one that has stopped early, what its manifest says."""
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
        self.config = config
        self._storage = storage
        self._store = RunStore(storage, self.path)
        self._manifest: Manifest | None = None
        """The one that this process has read or written last, of a run that it has opened."""

    @cached_property
    def _schemas(self) -> Mapping[str, pa.Schema]:
        return schemas(own_columns(self.config))

    @cached_property
    def _records(self) -> Records:
        # Made when it is needed: `status` asks thousands of folders whether they are done.
        return Records(self.path, self._schemas)

    def manifest(self) -> Manifest | None:
        """Return what the run's manifest says, None if the run has written nothing.

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
        """The number of stored rounds; 0 of a run with a damaged manifest."""
        return 0 if (stored := self._undamaged()) is None else stored.rounds_done

    def _undamaged(self) -> Manifest | None:
        try:
            return self.manifest()
        except (DamagedFile, UnreadableFile):
            return None

    def check_config(self) -> None:
        """Check that the stored configuration, if there is one, is this run's.

        Raises:
            ConfigError: it is another one.
        """
        stored = self.path / CONFIG
        if os.path.lexists(stored) and not holds(stored, self._config_text().encode()):
            raise ConfigError(
                f"{stored} is damaged, or of another fedgrid; update fedgrid, or move {self.path} away"
            )

    def open(self) -> RunState | None:
        """Return the newest undamaged state that has all of its records, None if the run starts from zero.

        Loads the records up to that round. If the records are damaged, the run starts again from the
        beginning, which gives the same numbers.

        Raises:
            ConfigError: the folder belongs to another configuration, or another version wrote it.
            RunError: every state is damaged, or the folder cannot be written.
        """
        with disk_errors(self.path):
            self._storage.pull(self.path.name)
            self._store.forget_unsent()
            self.check_config()
            run_state = self._newest()
            self.path.mkdir(parents=True, exist_ok=True)
            delete_partial(self.path)
            if not (self.path / CONFIG).exists():
                self._write(CONFIG, self._config_text())
            if self._manifest is None:
                self._begin()
            if images := own_images.seal_places(self.config.own_images):
                self._write(own_images.PLACES, images)
            self._remove(FAILED)
        return run_state

    def note_made_with(self, now: MadeWith, rounds_done: int, *, accept: bool = False) -> None:
        """Note what the rounds to come are made with; to be called after `open`.

        With `accept`, other code, versions or machines than before are accepted, and noted.

        Raises:
            DataError: the rounds so far were made with other images.
            ConfigError: they were made with something else that is not accepted.
            RunError: it cannot be written.
        """
        with disk_errors(self.path):
            stored = self._opened()
            before = listed_parts(stored) if rounds_done else ()
            parts, notes = changes(self.config.name, before, now, rounds_done, accept=accept)
            self.log(*(f"warning: {note}" for note in notes))
            if parts != listed_parts(stored):
                self._replace(replace(stored, made_with=as_listed(parts)))

    def save(self, rounds: Sequence[tuple[RoundRecord, RunState]]) -> None:
        """Store further rounds: their records and the states to keep, then the manifest that lists them.

        Raises:
            RunError: they cannot be written; the folder is then as after a round before, and the same call
                can be made again.
        """
        for place, (record, run_state) in enumerate(rounds, 1):
            rows = {"rounds": [record.round], "clients": record.clients, "timings": [record.timing]}
            self._records.add(run_state.rounds_done, rows)
            if place == len(rounds) or self._records.is_full:
                with disk_errors(self.path):
                    self.put_states([state for _, state in rounds[:place]])
        self.log(*(f"warning: {warning}" for record, _ in rounds for warning in record.warnings))

    def take(self, run_state: RunState, tables: Mapping[str, pa.Table]) -> None:
        """Store the first rounds of a run without any, with the records of table -> rows.

        Raises:
            RunError: they cannot be written.
        """
        self._records.hold(tables)
        with disk_errors(self.path):
            self.put_states([run_state])

    def put_states(self, states: Sequence[RunState]) -> None:
        """Store states, all of whose rounds are among the records that are held; those stored are skipped."""
        while True:
            base = self._store.stored()
            if base is None:
                raise RunError(f"{self.path}: {MANIFEST} has been deleted; run the same command again")
            new = [state for state in states if state.rounds_done > base.rounds_done][-checkpoint.KEEP :]
            manifest = self._with_rounds(base, new) if new else base
            if not new or self._store.replace(base, manifest):
                self._manifest = manifest
                return

    def _with_rounds(self, base: Manifest, new: Sequence[RunState]) -> Manifest:
        """Write the records that are held and these states; return the manifest that lists them."""
        rounds_done = new[-1].rounds_done
        states = {state.rounds_done: checkpoint.files_of(state) for state in new}
        records: dict[str, Write]
        if rounds_done == self.config.training.rounds:
            earlier: list[str] = []
            records = self._joined_records(base, rounds_done)
        else:
            earlier = self._records.earlier(base)
            records = self._newest_records()
        of_states = {name: write for files in states.values() for name, write in files.items()}
        entries = self._store.put(
            records | {name: write for name, write in of_states.items() if name not in base.files}
        )
        listed = {**base.states, **{number: [*files] for number, files in states.items()}}
        kept = {number: listed[number] for number in sorted(listed)[-checkpoint.KEEP :]}
        names = {CONFIG, *earlier, *(name for files in kept.values() for name in files)}
        files = {name: entry for name, entry in base.files.items() if name in names} | entries
        return replace(base, rounds_done=rounds_done, states=kept, files=files)

    def put_tables(self, tables: Mapping[str, pa.Table]) -> None:
        """Store the records of all rounds of a run that has been computed elsewhere, without its states.

        Raises:
            RunError: they cannot be written.
        """
        with disk_errors(self.path):
            stored = self._opened()
            files = {f"{name}.parquet": table_bytes(table) for name, table in tables.items()}
            entries = self._store.put({name: partial(_write_bytes, data=files[name]) for name in files})
            self._replace(stored.with_files(entries, rounds_done=stored.rounds))

    def has_tables(self, tables: Mapping[str, pa.Table]) -> bool:
        """Return whether these are the records of the run, by what its manifest says."""
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
        with disk_errors(self.path):
            stored = self._opened()
            rounds, stop_after = stored.rounds_done, self.config.training.stop_after
            if rounds < stored.rounds and stop_after is None:
                raise RunError(
                    f"{self.path}: its records end with round {rounds} of {stored.rounds}; run the same "
                    "command again"
                )
            if not stored.is_finished:
                if rounds < stored.rounds:
                    self.log(
                        f"stopped after round {rounds} of {stored.rounds}: no better validation score in "
                        f"{stop_after} rounds"
                    )
                    stored = self._with_joined_records(stored)
                self._replace(replace(stored, is_finished=True))
            self._store.sweep(self._opened().files)
            self._remove(FAILED)
            self.log("finished")

    def fail(self, cause: str, attempts: int) -> None:
        """Mark the run as failed after `attempts` attempts; `open` removes the mark."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._write(FAILED, seal({"run_id": self.config.run_id, **asdict(Failure(cause, attempts))}))

    def failure(self) -> Failure | None:
        """Return why the run failed, None if it has not.

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
        """Return in one line what is wrong with the files here of a finished run, None if nothing is.

        A state may be missing, which only further work on its models needs, and of its tensors, which are
        large, only the sizes are compared: who reads them compares their checksums. At a URI the mirror has
        only what was asked for: what is missing is no damage there.

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
            self._store.push(LOG)

    def _config_text(self) -> str:
        return json.dumps(self.config.written(), indent=2, sort_keys=True) + "\n"

    def _opened(self) -> Manifest:
        assert self._manifest is not None, "open() comes first"
        return self._manifest

    def _begin(self) -> None:
        """Write the manifest of a run without rounds."""
        entry = FileEntry.of(self._config_text().encode())
        self._manifest = Manifest(self.config.run_id, self.config.training.rounds, files={CONFIG: entry})
        self._store.reset(self._manifest)
        self._records.begin(1)

    def _replace(self, manifest: Manifest) -> None:
        if not self._store.replace(self._opened(), manifest):
            raise RunError(f"{self.path} is being written by another process; run the same command again")
        self._manifest = manifest

    def _newest(self) -> RunState | None:
        """Return the newest whole state that has its records; note its manifest, set aside damaged files."""
        self._manifest = None
        candidates, why = self._candidates()
        aside = [MANIFEST] if why else []
        bad_states: dict[int, str] = {}
        for manifest in candidates:
            if not manifest.rounds_done:
                self._go_on_from(manifest, aside, why)
                return None
            last, bad_records = self._records.check(manifest)
            why += bad_records.values()
            aside += bad_records
            for number in sorted(set(manifest.states) - set(bad_states), reverse=True):
                try:
                    run_state = checkpoint.load(self.path, number, manifest)
                except DamagedFile as error:
                    bad_states[number] = str(error)
                    continue
                if number <= last:
                    cut = self._cut(manifest, number)
                    listed = {name for each in candidates for name in each.files if name.startswith("state-")}
                    lines = [
                        f"{line}: rounds after {number} are run again"
                        for line in (*why, *bad_states.values())
                    ]
                    self._go_on_from(cut, [*aside, *sorted(listed - set(cut.files))], lines)
                    return run_state
        # Whoever has deleted the states of a finished run, for their size, may have it computed again.
        is_without_states = bool(candidates) and candidates[0].is_finished and not _states_in(self.path)
        if (
            bad_states
            and not is_without_states
            and all({*each.states} <= {*bad_states} for each in candidates)
        ):
            states = "; ".join(bad_states.values())
            raise FinalError(f"every state is damaged: {states}; move {self.path} away to start over")
        if candidates or why:
            self.log(f"warning: {'; '.join((*why, *bad_states.values()))}: all rounds are run again")
            self._store.set_aside([MANIFEST, *filter(is_of_rounds, sorted(os.listdir(self.path)))])
        return None

    def _candidates(self) -> tuple[list[Manifest], list[str]]:
        """Return the manifest, and that of before, if they are whole; and what is wrong with the first."""
        found, why = list[Manifest](), list[str]()
        try:
            found += filter(None, [self.manifest()])
        except DamagedFile as error:
            why.append(str(error))
        before = read_before(self.path) if found or why else None
        return [*found, *([before] if before is not None and before not in found else [])], why

    def _cut(self, manifest: Manifest, number: int) -> Manifest:
        """Load the records up to a round of a manifest; return the manifest of that round."""
        self._records.go_on_after(manifest, number)
        if number == manifest.rounds_done:
            return manifest
        states = {each: names for each, names in manifest.states.items() if each <= number}
        names = {
            CONFIG,
            *self._records.earlier(manifest),
            *(name for each in states.values() for name in each),
        }
        files = {name: entry for name, entry in manifest.files.items() if name in names}
        newest = self._store.put(self._newest_records())
        return replace(manifest, rounds_done=number, is_finished=False, states=states, files=files | newest)

    def _go_on_from(self, manifest: Manifest, aside: Sequence[str], why: Sequence[str]) -> None:
        """Take a manifest as the stored one; if files are damaged, set them aside and store the manifest."""
        self._manifest = manifest
        if why:
            self.log(*(f"warning: {line}" for line in why))
            self._store.set_aside(aside)
            self._store.reset(manifest)

    def _with_joined_records(self, manifest: Manifest) -> Manifest:
        """Join the records of the rounds that a manifest has; return the manifest that lists them so."""
        entries = self._store.put(self._joined_records(manifest, manifest.rounds_done))
        segments = {name for table in self._schemas for name in manifest.segments(table)}
        files = {name: entry for name, entry in manifest.files.items() if name not in segments}
        return replace(manifest, files=files | entries)

    def _joined_records(self, manifest: Manifest, rounds: int) -> dict[str, Write]:
        return {
            f"{table}.parquet": partial(self._records.join, table, manifest, rounds)
            for table in self._schemas
        }

    def _newest_records(self) -> dict[str, Write]:
        return {name: partial(_write_bytes, data=data) for name, data in self._records.newest().items()}

    def _write(self, name: str, text: str) -> None:
        write_text(self.path / name, text)
        self._store.push(name)

    def _remove(self, name: str) -> None:
        if (self.path / name).exists():
            self._store.delete([name])


def _states_in(folder: Path) -> bool:
    return any(STATE.fullmatch(name) for name in os.listdir(folder))


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
