"""Reads a run's Parquet records into arrays by column, nulls as NaN.

All numbers of `rounds.parquet` are read, whatever their names, so that a new one needs no change here. A
column that a file lacks is all NaN. A run's files are those that its manifest names. Shapes: R rounds, K
clients.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.manifest import BadRun, Manifest, read_manifest, read_segment, read_segments
from fedgrid.parquet_files import find_wrong_type, find_wrong_value, is_number
from fedgrid.record_columns import RECALL, SCORES, TESTS, find_column
from fedgrid.sealed_json import BadFile
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.names import nearest_score

REQUESTED_PARTS = ("trained", "excluded", "dropped")
"""Values of the column `part` of clients that were to train in a round."""
HELD_OUT = "held out"
"""Value of that column of clients that never train."""
CLIENT_COLUMNS = (
    "cluster",
    "true_cluster",
    "train_loss",
    "train_accuracy",
    "test_images",
    "test_mean",
    "test_square",
    *(f"{test}_{score}" for test in TESTS for score in SCORES if score != RECALL),
)

MESSAGE_COLUMNS = ("message_seconds", "epoch_seconds")
"""Columns of `timings.parquet` of algorithms whose clients describe their data before training."""
ROUND_KEYS = ("round", "clustered")
CLIENT_KEYS = ("round", "client", "cluster", "true_cluster")
"""Columns without which a file cannot be read."""


class RecordsError(ValueError):
    """Records of a run that are missing, damaged, or do not fit together."""


class NoRecords(RecordsError):
    """Records of a run that has none yet."""


class Columns(dict[str, Array]):
    """Arrays of one shape by name; a name that the records lack gives an array of NaN.

    With `allowed`, the names that records may have, any other name is a `KeyError`.
    """

    def __init__(
        self, shape: tuple[int, ...], columns: Mapping[str, Array], allowed: Collection[str] | None = None
    ) -> None:
        super().__init__(columns)
        self._shape, self._allowed = shape, allowed

    def __missing__(self, name: str) -> Array:
        if self._allowed is not None and name not in self._allowed:
            hint = nearest_score(name, {*self, *self._allowed})
            raise KeyError(f"no score '{name}'; {hint}there are {', '.join(sorted(self))}")
        return np.full(self._shape, np.nan)


@dataclass(frozen=True)
class Records:
    """The records of R complete rounds of one run."""

    round_R: Array
    """Numbers of the rounds, from 1, ascending."""
    rounds: Columns
    """The numbers of each round, shape (R,)."""
    clients: Columns
    """`CLIENT_COLUMNS`, each of shape (R, K), clients ascending, without those held out; NaN where there was
    no test. And `asked`: 1 where the client was to train, else 0. Of runs with attackers also `attacker`: 1
    of those, else 0."""
    client_K: Array
    """The numbers of these clients."""
    held_out_RH: Array
    """The personalised accuracy of the clients that are held out."""
    seconds_R: Array
    """Wall-clock time of each round, as it would have been without the round cache; NaN if unknown."""
    group_names: Mapping[int, str] = field(default_factory=dict)
    """What the data set calls the hidden groups, where it has groups of its own."""

    @property
    def truth_K(self) -> Array:
        """The hidden group of each client in the first round; `clients['true_cluster']` has every round's."""
        return np.asarray(self.clients["true_cluster"][0])

    def rounds_after(self, number: int) -> "Records":
        """Select the records of the rounds after one."""
        is_in = self.round_R > number
        shape = self.round_R[is_in].shape
        return replace(
            self,
            round_R=self.round_R[is_in],
            rounds=Columns(shape, {name: values_R[is_in] for name, values_R in self.rounds.items()}),
            clients=Columns(
                (*shape, len(self.client_K)),
                {name: values_RK[is_in] for name, values_RK in self.clients.items()},
            ),
            held_out_RH=self.held_out_RH[is_in] if self.held_out_RH.size else self.held_out_RH,
            seconds_R=self.seconds_R[is_in],
        )


def read_records(run_folder: Path) -> Records:
    """Read the records of a run, finished or not.

    A run that was killed may have left a round in one of the two files only; such a round is left out.

    Raises:
        RecordsError: if there is no complete round yet, or the files do not match.
    """
    # 1. Read both tables, and leave out rounds that are in one of them only.
    rounds = read_table(run_folder, "rounds", ROUND_KEYS).sort_by("round")
    columns = (*CLIENT_COLUMNS, "part", "fault", "group")
    clients = _sort_rows(read_table(run_folder, "clients", CLIENT_KEYS, columns))
    # The two files are written one after the other, and a kill between them leaves a round in the first
    # alone.
    complete_R = np.intersect1d(rounds["round"].to_numpy(), clients["round"].to_numpy())
    if not len(complete_R):
        raise NoRecords(f"{run_folder} has no finished round yet; let the run go on and try again")
    rounds, clients = _keep_rounds(rounds, complete_R), _keep_rounds(clients, complete_R)
    # 2. Check that they have one row for each round, or round and client.
    if len(rounds) != len(complete_R) or len(clients) % len(complete_R):
        raise RecordsError(
            f"the records in {run_folder} do not have one row per round and client; run it again"
        )
    shape = (len(complete_R), len(clients) // len(complete_R))
    # The arrays below have the client's number as their column index.
    if (clients["client"].to_numpy().reshape(shape) != np.arange(shape[1])).any():
        raise RecordsError(f"the clients in {run_folder} are not numbered from 0 on; run it again")
    # 3. Convert them to arrays.
    names = [field.name for field in rounds.schema if field.name != "round" and is_number(field.type)]
    # Columns of words have no place among curves.
    numbers = {name: rounds[name].to_numpy() for name in names}
    group_names = _read_group_names(clients.slice(0, shape[1]))
    by_name = dict(zip(clients.column_names, clients.columns, strict=True))
    # `_convert_client_columns` empties `by_name` as it converts; a reference to the table would keep all of
    # it.
    del clients
    timings = _read_timings(run_folder, complete_R)
    numbers |= {name: timings[name] for name in MESSAGE_COLUMNS if name in timings}
    return Records(
        complete_R,
        Columns(shape[:1], numbers),
        *_split_off_held_out(
            {name: values.reshape(shape) for name, values in _convert_client_columns(by_name).items()}
        ),
        timings["uncached_seconds"],
        group_names,
    )


def _split_off_held_out(columns: dict[str, Array]) -> tuple[Columns, Array, Array]:
    """Split off the clients held out: the others' columns and numbers, and the accuracies of those."""
    is_out_K = columns.pop(HELD_OUT, np.zeros_like(columns["cluster"]))[0] == 1
    held_out_RH = columns["personalised_accuracy"][:, is_out_K] if is_out_K.any() else np.zeros((0, 0))
    # Without such clients a copy would only take as much memory again.
    if is_out_K.any():
        # In C order: a mean over a row adds up its numbers in another order if columns lie together, which
        # changes the last digits of published scores.
        columns = {name: np.ascontiguousarray(values_RK[:, ~is_out_K]) for name, values_RK in columns.items()}
    return Columns(columns["cluster"].shape, columns), np.flatnonzero(~is_out_K), held_out_RH


def _read_group_names(clients: pa.Table) -> dict[int, str]:
    """Read what the data set calls each hidden group, from the rows of one round; none without names."""
    if "group" not in clients.column_names:
        return {}
    rows = clients.select(["true_cluster", "group"]).to_pylist()
    return {row["true_cluster"]: row["group"] for row in rows if row["group"] is not None}


def _sort_rows(clients: pa.Table) -> pa.Table:
    """Sort the rows by round and client, unless they are in order already: a copy may take a gigabyte."""
    rounds, numbers = clients["round"].to_numpy(), clients["client"].to_numpy()
    # Checked before sorting: the rows are mostly written in this order.
    steps = np.diff(rounds)
    if ((steps > 0) | ((steps == 0) & (np.diff(numbers) > 0))).all():
        return clients
    return clients.sort_by([("round", "ascending"), ("client", "ascending")])


def _convert_client_columns(columns: dict[str, pa.ChunkedArray]) -> dict[str, Array]:
    """Convert those of `CLIENT_COLUMNS` that are there, `part` and `fault` to arrays, and empty `columns`."""
    part, fault = columns.pop("part", None), columns.pop("fault", None)
    # Each column leaves the table as it is converted, so that a large run is not in memory twice.
    arrays = {name: columns.pop(name).to_numpy() for name in CLIENT_COLUMNS if name in columns}
    if part is not None:
        arrays["asked"] = pc.is_in(part, value_set=pa.array(REQUESTED_PARTS)).to_numpy().astype(np.float64)
        arrays[HELD_OUT] = pc.is_in(part, value_set=pa.array([HELD_OUT])).to_numpy().astype(np.float64)
    if fault is not None:
        arrays["attacker"] = fault.is_valid().to_numpy().astype(np.float64)
    return arrays


def _read_timings(run_folder: Path, round_R: Array) -> Columns:
    """Read the columns of `timings.parquet` that scores use, at some rounds; none without such a file."""
    columns = Columns(round_R.shape, {})
    try:
        timings = read_table(run_folder, "timings", columns=("uncached_seconds", *MESSAGE_COLUMNS))
    except NoRecords:
        return columns
    # Timings may lack a round, or have one that the other files lack after a kill: match them by number.
    is_in, places = np.isin(timings["round"], round_R), np.searchsorted(round_R, timings["round"])
    for name in timings.column_names[1:]:
        columns[name] = np.full(round_R.shape, np.nan)
        columns[name][places[is_in]] = timings[name].to_numpy()[is_in]
    return columns


def read_table(
    run_folder: Path, name: str, keys: Sequence[str] = ("round",), columns: Sequence[str] | None = None
) -> pa.Table:
    """Read a table of a run's records, with its `keys` and the `columns` of those named that it has.

    Args:
        run_folder: the folder of the run.
        name: of the table: `rounds`, `clients`, `timings`, ...
        keys: columns without which the table cannot be used, `round` by default.
        columns: further columns to read, if they are there; None (default) reads all.

    Raises:
        RecordsError: it is missing, or cannot be read.
    """
    # A run under way has its tables in files named by their rounds.
    others = sorted({path.stem.partition("-")[0] for path in run_folder.glob("*.parquet")})
    step = f"there are {', '.join(others)}" if others else "a run has one after its first round"
    lacking = NoRecords(f"no {name}.parquet in {run_folder}; {step}")
    try:
        rows = read_segments(
            run_folder, name, lambda manifest, each: _read_columns(run_folder, manifest, each, keys, columns)
        )
    except FileNotFoundError as error:
        raise lacking from error
    except BadRun as error:
        raise RecordsError(f"cannot read {error.path}: {error}") from error
    except pa.ArrowInvalid as error:
        raise RecordsError(f"the files of {name} in {run_folder} have other columns") from error
    except (OSError, BadFile) as error:
        cause = getattr(error, "strerror", None) or error
        raise RecordsError(
            f"cannot read {getattr(error, 'filename', None) or run_folder}: {cause}"
        ) from error
    if rows is None:
        raise lacking
    return rows


def count_rounds(run_folder: Path) -> int:
    """Count the recorded rounds; 0 if there are none or they cannot be read."""
    try:
        return read_manifest(run_folder).rounds_done
    except (OSError, BadFile):
        return 0


def _read_columns(
    run_folder: Path, manifest: Manifest, name: str, keys: Sequence[str], columns: Sequence[str] | None
) -> pa.Table:
    """Read the chosen columns of one file of a table, and check their types and values."""
    path = run_folder / name

    def choose_columns(schema: pa.Schema) -> list[str]:
        """List the columns to read, by the schema of the file; a wrong type or a missing key is an error."""
        if (cause := find_wrong_type(schema, find_column)) is not None:
            raise RecordsError(f"cannot read {path}: {cause}")
        if missing := [key for key in keys if key not in schema.names]:
            raise RecordsError(f"cannot read {path}: it has no column {missing[0]!r}")
        names = [column for column in schema.names if columns is None or column in columns]
        return [*dict.fromkeys((*keys, *names))]

    rows = read_segment(run_folder, manifest, name, choose_columns)
    if (cause := find_wrong_value(rows, find_column)) is not None:
        raise RecordsError(f"cannot read {path}: {cause}")
    return rows


def _keep_rounds(table: pa.Table, rounds_R: Array) -> pa.Table:
    """Filter the rows of some rounds, without a copy if these are all."""
    is_in = np.isin(table["round"].to_numpy(), rounds_R)
    return table if is_in.all() else table.filter(pa.array(is_in))
