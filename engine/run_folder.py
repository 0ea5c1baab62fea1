"""A run's folder, in formats that need no fedgrid: configuration, states, records, log and `done.json`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgrid.engine import checkpoint
from fedgrid.engine.checkpoint import Progress
from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.records import RoundRecord, schemas
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.storage.atomic import delete_partial, disk_errors, write_text
from fedgrid.engine.storage.storage import Storage
from fedgrid.redaction import redacted

DONE, FAILED, CONFIG, LOG = "done.json", "failed.json", "config.json", "log.txt"


def folder_of(root: Path, config: RunConfig) -> Path:
    """Return the folder of the run of `config` under a storage's `root`.

    Raises:
        ConfigError: the run's name leads elsewhere: a list of runs in a storage may say anything.
    """
    name = f"{config.name}-{config.run_id}"
    if Path(name).name != name or "\0" in name:
        raise ConfigError(f"a run named {name!r}: expected no / in the names of data set and algorithm")
    return root / name


@dataclass(frozen=True)
class Failure:
    """Why a run failed for good."""

    cause: str
    attempts: int


class RunFolder:
    """Reads and writes one run's folder; holds the run's records in memory, a few hundred bytes per row.

    A run has one writer. A killed driver can leave a second one behind for a while. Both then write the same
    bytes under temporary names of their own, and the slower one skips rounds that are already stored.
    """

    def __init__(self, storage: Storage, config: RunConfig) -> None:
        self.path = folder_of(storage.root, config)
        self.config = config
        self._storage = storage
        self._tables: dict[str, pa.Table] = {}

    @property
    def is_done(self) -> bool:
        """Whether the run has finished all rounds."""
        return (self.path / DONE).exists()

    @property
    def rounds_done(self) -> int:
        """The number of stored rounds, according to the names of the files."""
        if self.is_done:
            return self.config.training.rounds
        return max(checkpoint.stored_rounds(self.path), default=0)

    def check_config(self) -> None:
        """Check that the stored configuration, if there is one, is this run's.

        Raises:
            ConfigError: it is another one.
        """
        stored = self.path / CONFIG
        if stored.exists() and stored.read_bytes() != self._config_text().encode():
            raise ConfigError(f"{stored} is of another version of this run; move {self.path} away")

    def open(self) -> Progress | None:
        """Return the newest undamaged progress that has all of its records, None if the run starts from zero.

        Loads the records up to that round. If the records are damaged, the run starts again from the
        beginning, which gives the same numbers.

        Raises:
            ConfigError: the folder belongs to another configuration.
            RunError: every state is damaged, or the folder cannot be written.
        """
        with disk_errors(self.path):
            self._storage.pull(self.path.name, skip=("figures/",))
            self.check_config()
            self.path.mkdir(parents=True, exist_ok=True)
            delete_partial(self.path)
            if not (self.path / CONFIG).exists():
                self._mark(CONFIG, self._config_text())
            self._unmark(FAILED)
            progress = self._newest()
            if progress is None or progress.rounds_done < self.config.training.rounds:
                self._unmark(DONE)
        return progress

    def save(self, record: RoundRecord, progress: Progress) -> None:
        """Store one more round: its records first, then the state, which makes the round valid.

        Raises:
            RunError: it cannot be written; the folder is then as after the round before.
        """
        rows: Mapping[str, Sequence[Mapping[str, Any]]] = {
            "rounds": [record.round],
            "clients": record.clients,
            "timings": [record.timing],
        }
        for name, schema in schemas().items():
            new = pa.Table.from_pylist(list(rows[name]), schema=schema)
            self._tables[name] = pa.concat_tables([self._tables[name], new]).combine_chunks()
        with disk_errors(self.path):
            if progress.rounds_done > self.rounds_done:
                self._write(progress)
            self.log(*(f"warning: {warning}" for warning in record.warnings))

    def finish(self) -> None:
        """Mark the run as finished."""
        mark = {"run_id": self.config.run_id, "rounds": self._tables["rounds"].num_rows}
        with disk_errors(self.path):
            self._mark(DONE, json.dumps(mark) + "\n")
            self._unmark(FAILED)
            self.log("finished")

    def fail(self, cause: str, attempts: int) -> None:
        """Mark the run as failed after `attempts` attempts; `open` removes the mark."""
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._mark(FAILED, json.dumps(asdict(Failure(cause, attempts))) + "\n")

    def failure(self) -> Failure | None:
        """Return why the run failed, None if it has not."""
        try:
            return Failure(**json.loads((self.path / FAILED).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            return Failure(f"{FAILED} is damaged; see {LOG}", 0)

    def log(self, *messages: str) -> None:
        """Append lines with the current time (UTC) to `log.txt`."""
        if messages:
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
            with disk_errors(self.path), (self.path / LOG).open("a") as file:
                file.writelines(f"{now} {redacted(message)}\n" for message in messages)
            self._push(LOG)

    def _config_text(self) -> str:
        return json.dumps(self.config.written(), indent=2, sort_keys=True) + "\n"

    def _newest(self) -> Progress | None:
        stored = checkpoint.stored_rounds(self.path)
        tables = {name: self._read(name) for name in schemas()}
        last_recorded = min(_last_round(table) for table in tables.values())
        is_any_undamaged = False
        for number in stored:
            progress = checkpoint.load(self.path, number)
            is_any_undamaged = is_any_undamaged or progress is not None
            if progress is not None and number <= last_recorded:
                self._drop(later for later in stored if later > number)
                self._tables = {
                    name: table.filter(pc.field("round") <= number).combine_chunks()
                    for name, table in tables.items()
                }
                return progress
        if stored and not is_any_undamaged:
            names = ", ".join(checkpoint.names(number)[0] for number in stored)
            raise RunError(
                f"every state in {self.path} is damaged ({names}); delete the folder to start this run again"
            )
        if stored:
            self.log(
                f"warning: the records end before round {stored[-1]} or are damaged: all rounds are run again"
            )
        self._drop(stored)
        self._tables = {name: schema.empty_table() for name, schema in schemas().items()}
        return None

    def _read(self, name: str) -> pa.Table:
        """Return the records on disk, empty if missing or damaged; a column that they lack is null."""
        schema = schemas()[name]
        try:
            table = pq.read_table(self.path / f"{name}.parquet", page_checksum_verification=True)
        except (OSError, pa.ArrowException):
            return schema.empty_table()
        for column in schema.names:
            if column not in table.column_names:
                nulls = pa.nulls(table.num_rows, schema.field(column).type)
                table = table.add_column(schema.get_field_index(column), schema.field(column), nulls)
        # A column with an unknown name is damage: a flipped bit in a name must not read as a missing column.
        return table.cast(schema) if table.schema.equals(schema) else schema.empty_table()

    def _write(self, progress: Progress) -> None:
        tables = {f"{name}.parquet": table for name, table in self._tables.items()}
        self._push(*checkpoint.save(self.path, progress, tables))
        oldest = progress.rounds_done - checkpoint.KEEP
        self._drop(number for number in checkpoint.stored_rounds(self.path) if number <= oldest)

    def _drop(self, rounds: Iterable[int]) -> None:
        gone = checkpoint.drop(self.path, rounds)
        if gone:
            self._storage.remove(*(f"{self.path.name}/{name}" for name in gone))

    def _mark(self, name: str, text: str) -> None:
        write_text(self.path / name, text)
        self._push(name)

    def _unmark(self, name: str) -> None:
        if (self.path / name).exists():
            (self.path / name).unlink(missing_ok=True)
            self._storage.remove(f"{self.path.name}/{name}")

    def _push(self, *names: str) -> None:
        self._storage.push(*(f"{self.path.name}/{name}" for name in names))


def _last_round(table: pa.Table) -> int:
    return pc.max(table["round"]).as_py() or 0
