"""A run's folder, readable without us: configuration, states, records, log, and `done.json` at the end."""

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
from fedgrid.engine.records import CLIENTS, LATER, ROUNDS, TIMINGS, RoundRecord
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.storage.atomic import kept_in, sweep, write_text
from fedgrid.engine.storage.storage import Storage

SCHEMAS = {"rounds": ROUNDS, "clients": CLIENTS, "timings": TIMINGS}
DONE, FAILED, CONFIG, LOG = "done.json", "failed.json", "config.json", "log.txt"


def folder_of(root: Path, config: RunConfig) -> Path:
    """Return where the run of `config` is kept under a storage's `root`."""
    return root / f"{config.name}-{config.run_id}"


@dataclass(frozen=True)
class Failure:
    """Why a run was given up."""

    cause: str
    attempts: int


class RunFolder:
    """Reads and writes one run's folder; keeps the run's records in memory, a few hundred bytes a row.

    A run has one writer. Should there be two for a while (what a killed driver left behind), they write
    the same bytes under names of their own, and the slower one leaves to the faster what that has already.
    """

    def __init__(self, storage: Storage, config: RunConfig) -> None:
        self.path = folder_of(storage.root, config)
        self.config = config
        self._storage = storage
        self._tables: dict[str, pa.Table] = {}

    @property
    def is_done(self) -> bool:
        """Whether the run has finished all of its rounds."""
        return (self.path / DONE).exists()

    @property
    def rounds_done(self) -> int:
        """How many rounds are kept, going by the names of the files."""
        return self.config.training.rounds if self.is_done else max(checkpoint.kept(self.path), default=0)

    def check_config(self) -> None:
        """Check that what is kept here, if anything, is of this configuration.

        Raises:
            ConfigError: otherwise.
        """
        kept = self.path / CONFIG
        if kept.exists() and kept.read_bytes() != self._config_text().encode():
            raise ConfigError(f"{kept} is of another version of this run; move {self.path} away")

    def open(self) -> Progress | None:
        """Return the newest progress that is whole and that the records reach, None at the start.

        Loads the records up to there. Where the records themselves are damaged the run starts again: its
        rounds give the same numbers once more.

        Raises:
            ConfigError: if the folder belongs to another configuration.
            RunError: if every state is damaged, or the folder cannot be written.
        """
        with kept_in(self.path):
            self._storage.pull(self.path.name, skip=("figures/",))
            self.check_config()
            self.path.mkdir(parents=True, exist_ok=True)
            sweep(self.path)
            if not (self.path / CONFIG).exists():
                self._mark(CONFIG, self._config_text())
            self._unmark(FAILED)
            progress = self._newest()
            if progress is None or progress.rounds_done < self.config.training.rounds:
                self._unmark(DONE)
        return progress

    def save(self, record: RoundRecord, progress: Progress) -> None:
        """Keep one more round: first its records, then the state that makes it count.

        Raises:
            RunError: if it cannot be written; the folder is then as after the round before.
        """
        rows: Mapping[str, Sequence[Mapping[str, Any]]] = {
            "rounds": [record.round],
            "clients": record.clients,
            "timings": [record.timing],
        }
        for name, schema in SCHEMAS.items():
            new = pa.Table.from_pylist(list(rows[name]), schema=schema)
            self._tables[name] = pa.concat_tables([self._tables[name], new]).combine_chunks()
        with kept_in(self.path):
            if progress.rounds_done > self.rounds_done:
                self._write(progress)
            self.log(*(f"warning: {warning}" for warning in record.warnings))

    def finish(self) -> None:
        """Mark the run as finished."""
        mark = {"run_id": self.config.run_id, "rounds": self._tables["rounds"].num_rows}
        with kept_in(self.path):
            self._mark(DONE, json.dumps(mark) + "\n")
            self._unmark(FAILED)
            self.log("finished")

    def fail(self, cause: str, attempts: int) -> None:
        """Mark the run as given up after so many attempts; `open` takes the mark away."""
        with kept_in(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._mark(FAILED, json.dumps(asdict(Failure(cause, attempts))) + "\n")

    def failure(self) -> Failure | None:
        """Return why the run was given up, None if it was not."""
        try:
            return Failure(**json.loads((self.path / FAILED).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            return Failure(f"{FAILED} is damaged; see {LOG}", 0)

    def log(self, *messages: str) -> None:
        """Add lines to `log.txt`."""
        if messages:
            now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
            with kept_in(self.path), (self.path / LOG).open("a") as file:
                file.writelines(f"{now} {message}\n" for message in messages)
            self._push(LOG)

    def _config_text(self) -> str:
        return json.dumps(self.config.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"

    def _newest(self) -> Progress | None:
        kept = checkpoint.kept(self.path)
        tables = {name: self._read(name) for name in SCHEMAS}
        reach = min(_last_round(table) for table in tables.values())
        is_any_whole = False
        for number in kept:
            progress = checkpoint.load(self.path, number)
            is_any_whole = is_any_whole or progress is not None
            if progress is not None and number <= reach:
                self._drop(later for later in kept if later > number)
                self._tables = {
                    name: table.filter(pc.field("round") <= number).combine_chunks()
                    for name, table in tables.items()
                }
                return progress
        if kept and not is_any_whole:
            names = ", ".join(checkpoint.names(number)[0] for number in kept)
            raise RunError(
                f"every state in {self.path} is damaged ({names}); delete the folder to start this run again"
            )
        if kept:
            self.log(
                f"warning: the records end before round {kept[-1]} or are damaged: all rounds are run again"
            )
        self._drop(kept)
        self._tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        return None

    def _read(self, name: str) -> pa.Table:
        """Return the records on disk, none if they are missing or damaged."""
        try:
            table = pq.read_table(self.path / f"{name}.parquet", page_checksum_verification=True)
        except (OSError, pa.ArrowException):
            return SCHEMAS[name].empty_table()
        schema = SCHEMAS[name]
        for column in LATER.get(name, ()):
            if column not in table.column_names:
                nulls = pa.nulls(table.num_rows, schema.field(column).type)
                table = table.add_column(schema.get_field_index(column), schema.field(column), nulls)
        # A flipped bit in a column's name would pass for a table without that column.
        return table.cast(schema) if table.schema.equals(schema) else schema.empty_table()

    def _write(self, progress: Progress) -> None:
        tables = {f"{name}.parquet": table for name, table in self._tables.items()}
        self._push(*checkpoint.save(self.path, progress, tables))
        oldest = progress.rounds_done - checkpoint.KEEP
        self._drop(number for number in checkpoint.kept(self.path) if number <= oldest)

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
