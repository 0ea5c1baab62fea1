"""A run's folder, readable without us: configuration, states, records, log, and `done.json` at the end."""

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine import checkpoint
from engine.errors import ConfigError, RunError
from engine.federation import Progress
from engine.records import CLIENTS, ROUNDS, TIMINGS, RoundRecord
from engine.run_config import RunConfig

START_AGAIN = "delete its folder to start this run again"
SCHEMAS = {"rounds": ROUNDS, "clients": CLIENTS, "timings": TIMINGS}


def folder_of(storage: Path, config: RunConfig) -> Path:
    """Return where the run of `config` is kept under `storage`."""
    return storage / f"{config.name}-{config.run_id}"


class RunFolder:
    """Reads and writes one run's folder; keeps the run's records in memory, a few hundred bytes a row."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.path = path
        self.config = config
        self._tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}

    @property
    def is_done(self) -> bool:
        """Whether the run has finished all of its rounds."""
        return (self.path / "done.json").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process; the lock goes with the process, however it ends.

        Raises:
            RunError: if another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunError(f"{self.path} is in use by another process; wait for it or stop it") from error
            yield

    def open(self) -> Progress | None:
        """Return the progress to continue from, None at the start; loads the records up to there.

        Raises:
            ConfigError: if the folder belongs to another configuration.
            RunError: if every state is damaged, or the records of the rounds before it are.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.config.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"
        kept = self.path / "config.json"
        if kept.exists() and kept.read_text() != text:
            raise ConfigError(f"{kept} is of another version of this run; move {self.path} away")
        checkpoint.write_text(kept, text)
        progress = checkpoint.load(self.path)
        if progress is not None:
            self._tables = {name: self._read(name, progress.rounds_done) for name in SCHEMAS}
        return progress

    def save(self, record: RoundRecord, progress: Progress) -> None:
        """Keep one more round: first its records, then the state that makes it count."""
        rows: Mapping[str, Sequence[Mapping[str, Any]]] = {
            "rounds": [record.round],
            "clients": record.clients,
            "timings": [record.timing],
        }
        for name, schema in SCHEMAS.items():
            new = pa.Table.from_pylist(list(rows[name]), schema=schema)
            self._tables[name] = pa.concat_tables([self._tables[name], new]).combine_chunks()
            self._write(name)
        checkpoint.save(self.path, progress)
        for warning in record.warnings:
            self.log(f"warning: {warning}")

    def finish(self) -> None:
        """Mark the run as finished."""
        mark = {"run_id": self.config.run_id, "rounds": self._tables["rounds"].num_rows}
        checkpoint.write_text(self.path / "done.json", json.dumps(mark) + "\n")
        self.log("finished")

    def log(self, message: str) -> None:
        """Add a line to `log.txt`."""
        with (self.path / "log.txt").open("a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {message}\n")

    def _read(self, name: str, rounds_done: int) -> pa.Table:
        path = self.path / f"{name}.parquet"
        try:
            table = pq.read_table(path, schema=SCHEMAS[name])
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{path} is missing or damaged; {START_AGAIN}") from error
        table = table.filter(pc.field("round") <= rounds_done).combine_chunks()
        if pc.max(table["round"]).as_py() != rounds_done:
            raise RunError(f"{path} lacks round {rounds_done}; {START_AGAIN}")
        return table

    def _write(self, name: str) -> None:
        path = self.path / f"{name}.parquet"
        aside = path.with_suffix(".writing")
        pq.write_table(self._tables[name], aside)
        aside.replace(path)
