"""A run's folder, in formats that need no fedgrid: configuration, states, records, log and `done.json`.

Nothing damaged is deleted: it is moved into a folder `damaged-<number>` of the run's folder. A file of a
newer fedgrid is refused, and nothing is changed.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, FinalError
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.integrity import mark
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, MadeWith, changes, parts_of, seal_parts
from fedgrid.engine.runtime.integrity.mark import CONFIG, OF_ROUNDS, TIMES, TIMES_CHECKSUM
from fedgrid.engine.runtime.integrity.record_files import RecordFiles, segments
from fedgrid.engine.runtime.plugins.algorithm_of import own_columns
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.failure import Failure
from fedgrid.engine.runtime.storage.atomic import (
    delete_partial,
    disk_errors,
    set_aside,
    unlink_copies,
    write_text,
)
from fedgrid.engine.runtime.storage.format import (
    DamagedFile,
    UnreadableFile,
    check_run,
    holds,
    seal,
    unseal,
)
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.record_columns import DONE, schemas
from fedgrid.redaction import redacted

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


class RunFolder:
    """Reads and writes one run's folder.

    A run has one writer. A killed driver can leave a second one behind for a while. Both then write the same
    bytes under temporary names of their own, and the slower one skips rounds that are already stored.
    """

    def __init__(self, storage: Storage, config: RunConfig) -> None:
        self.path = folder_of(storage.root, config)
        self.config = config
        self._storage = storage

    @cached_property
    def _records(self) -> RecordFiles:
        # Made when it is needed: `status` asks thousands of folders whether they are done.
        return RecordFiles(self.path, schemas(own_columns(self.config)))

    @property
    def is_done(self) -> bool:
        """Whether the run has finished all of its rounds."""
        return (self.path / DONE).exists()

    @property
    def rounds_done(self) -> int:
        """The number of stored rounds, according to the names of the files."""
        if self.is_done:
            return mark.last_round(self.path, self.config)
        return max(checkpoint.stored_rounds(self.path), default=0)

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
            ConfigError: the folder belongs to another configuration, or a newer fedgrid wrote it.
            RunError: every state is damaged, or the folder cannot be written.
        """
        with disk_errors(self.path):
            self._storage.pull(self.path.name)
            self.check_config()
            listed = self._read_mark()
            run_state = self._newest(listed)
            self.path.mkdir(parents=True, exist_ok=True)
            delete_partial(self.path)
            if not (self.path / CONFIG).exists():
                self._mark(CONFIG, self._config_text())
            if images := own_images.seal_places(self.config.own_images):
                self._mark(own_images.PLACES, images)
            self._unmark(FAILED)
            if run_state is None or run_state.rounds_done < mark.last_round(self.path, self.config):
                self._unmark(DONE)
            if run_state is not None:
                self._drop_before(run_state)
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
            try:
                before = parts_of(self.path / MADE_WITH) if rounds_done else ()
            except DamagedFile as error:
                self.log(f"warning: {error}")
                self._set_aside([MADE_WITH])
                before = ()
            parts, notes = changes(self.config.name, before, now, rounds_done, accept=accept)
            self.log(*(f"warning: {note}" for note in notes))
            if parts != before:
                self._mark(MADE_WITH, seal_parts(parts, self.config.run_id))

    def save(self, rounds: Sequence[tuple[RoundRecord, RunState]]) -> None:
        """Store further rounds: their records first, then the states to keep, which make them valid.

        Raises:
            RunError: they cannot be written; the folder is then as after a round before, and the same call
                can be made again.
        """
        for place, (record, run_state) in enumerate(rounds, 1):
            rows = {"rounds": [record.round], "clients": record.clients, "timings": [record.timing]}
            self._records.add(run_state.rounds_done, rows)
            if place == len(rounds) or self._records.is_full:
                with disk_errors(self.path):
                    self._save([state for _, state in rounds[max(0, place - checkpoint.KEEP) : place]])
        self.log(*(f"warning: {warning}" for record, _ in rounds for warning in record.warnings))

    def finish(self) -> None:
        """Mark the run as finished, with the checksums of its files."""
        training = self.config.training
        rounds = training.rounds if training.stop_after is None else self.rounds_done
        if rounds < training.rounds and not self.is_done:
            self.log(
                f"stopped after round {rounds} of {training.rounds}: no better validation score in "
                f"{training.stop_after} rounds"
            )
        with disk_errors(self.path):
            joined, gone = self._records.join(rounds)
            self._push(*joined)
            self._delete(gone)
            if (self.path / TIMES).exists():
                self._mark(TIMES_CHECKSUM, mark.times_mark_of(self.path))
            self._mark(DONE, mark.mark_of(self.path, self.config, rounds))
            self._unmark(FAILED)
            self.log("finished")

    def fail(self, cause: str, attempts: int) -> None:
        """Mark the run as failed after `attempts` attempts; `open` removes the mark."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._mark(FAILED, seal({"run_id": self.config.run_id, **asdict(Failure(cause, attempts))}))

    def failure(self) -> Failure | None:
        """Return why the run failed, None if it has not.

        Raises:
            NewerFormat: a newer fedgrid wrote it.
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
        """Return in one line what is wrong with the files here of a run that `is_done`, None if nothing is.

        Raises:
            NewerFormat: a newer fedgrid wrote them.
        """
        # At a URI the mirror has only what was asked for.
        return mark.damage(self.path, self.config, everything=self._storage.uri is None)

    def log(self, *messages: str) -> None:
        """Append lines with the current time (UTC) to `log.txt`."""
        if messages:
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
            with disk_errors(self.path):
                unlink_copies(self.path / LOG)
                with (self.path / LOG).open("a") as file:
                    file.writelines(f"{now} {redacted(message)}\n" for message in messages)
            self._push(LOG)

    def _save(self, states: Sequence[RunState]) -> None:
        tables = self._records.newest()
        for run_state in states:
            if run_state.rounds_done > self.rounds_done:
                self._push(*checkpoint.save(self.path, run_state, tables))
                self._drop_before(run_state)
                tables = {}

    def _config_text(self) -> str:
        return json.dumps(self.config.written(), indent=2, sort_keys=True) + "\n"

    def _newest(self, listed: mark.Listed) -> RunState | None:
        stored, why = checkpoint.stored_rounds(self.path), list[str]()
        last_round, damaged = self._records.look(listed)
        for number in stored:
            try:
                run_state = checkpoint.load(self.path, number)
            except DamagedFile as error:
                why.append(str(error))
                continue
            if number <= last_round:
                for line in (*why, *damaged.values()):
                    self.log(f"warning: {line}: rounds after {number} are run again")
                later = [other for other in stored if other > number]
                self._set_aside([*checkpoint.files_of(self.path, later), *damaged])
                self._delete(self._records.go_on_after(number))
                return run_state
        if stored and len(why) == len(stored):
            raise FinalError(f"every state is damaged: {'; '.join(why)}; move {self.path} away to start over")
        if stored or damaged:
            why = [*why, *damaged.values()] or [f"the records end before round {stored[-1]}"]
            self.log(f"warning: {'; '.join(why)}: all rounds are run again")
            self._set_aside([*checkpoint.files_of(self.path, stored), *OF_ROUNDS, *segments(self.path)])
        self._delete(segments(self.path))
        self._records.begin(1)
        return None

    def _read_mark(self) -> mark.Listed:
        """Return the checksums of a finished run's files, empty of another run; sets a damaged mark aside."""
        try:
            return mark.listed_files(self.path, self.config) if self.is_done else {}
        except DamagedFile as error:
            self.log(f"warning: {error}")
            self._set_aside([DONE, TIMES_CHECKSUM])
            return {}

    def _drop_before(self, run_state: RunState) -> None:
        """Delete the states that are too old to be kept; a killed process may have left one."""
        gone = checkpoint.drop(self.path, run_state.rounds_done - checkpoint.KEEP)
        if gone:
            self._storage.remove(*(f"{self.path.name}/{name}" for name in gone))

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        if names:
            self._storage.remove(*(f"{self.path.name}/{name}" for name in names))

    def _set_aside(self, names: Iterable[str]) -> None:
        moved = set_aside(self.path, names)
        if moved:
            self._push(*(new for _, new in moved))
            self._storage.remove(*(f"{self.path.name}/{old}" for old, _ in moved))

    def _mark(self, name: str, text: str) -> None:
        write_text(self.path / name, text)
        self._push(name)

    def _unmark(self, name: str) -> None:
        if (self.path / name).exists():
            self._delete([name])

    def _push(self, *names: str) -> None:
        self._storage.push(*(f"{self.path.name}/{name}" for name in names))
