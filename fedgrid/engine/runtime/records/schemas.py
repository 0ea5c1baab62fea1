"""The records of a run: schemas and rows of `rounds.parquet`, `clients.parquet` and `timings.parquet`.

`rounds` has one row per round, `clients` one row per round and client; both have the same bytes whenever the
run is repeated. Wall-clock times and peak memory are in `timings`. Scores, tables and figures are computed
from the records. Columns are declared in `runtime.records.columns`, numbers of a round in
`federation.round.metrics`.
"""

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from fedgrid.engine.federation.partition.scenarios import CENTRALISED
from fedgrid.engine.federation.record_names import (
    COUNTS,
    EPSILON,
    FAULT,
    GLOBAL_TESTS,
    MEMBERS,
    MESSAGE,
    TESTS,
)
from fedgrid.engine.federation.round import metrics as round_metrics
from fedgrid.engine.runtime.records.columns import (
    BYTES_OF_MESSAGES,
    CLIENT,
    MESSAGE_SECONDS,
    OF_COUNTS,
    OF_FAULT,
    OF_MEMBERS,
    ROUND,
    SPENT,
    TIMING,
    RecordColumn,
    of_tests,
    schema_of,
)

NONE: frozenset[str] = frozenset()


def round_columns(columns: Collection[str] = NONE) -> tuple[RecordColumn, ...]:
    """Return the columns of `rounds.parquet`: the round's number, then `ROUND_METRICS`."""
    noise = round_metrics.NOISE_METRICS if EPSILON in columns else ()
    norms = round_metrics.CENTRALISED_METRICS if CENTRALISED in columns else ()
    return (
        ROUND,
        *_numbers(round_metrics.ROUND_METRICS),
        *((OF_COUNTS,) if COUNTS in columns else ()),
        *_numbers((*noise, *norms)),
        *(BYTES_OF_MESSAGES if MESSAGE in columns else ()),
    )


def _numbers(metrics: Iterable[round_metrics.RoundMetric]) -> Iterator[RecordColumn]:
    return (RecordColumn(metric.name, pa.type_for_alias(metric.type), metric.meaning) for metric in metrics)


def rounds_schema(columns: Collection[str] = NONE) -> pa.Schema:
    """Return the schema of `rounds.parquet`."""
    return schema_of(round_columns(columns))


def client_columns(global_model: bool = False, columns: Collection[str] = NONE) -> tuple[RecordColumn, ...]:
    """Return the columns of `clients.parquet`; arguments as of `schemas`."""
    return (
        *CLIENT,
        *of_tests(TESTS + GLOBAL_TESTS * global_model),
        *((OF_MEMBERS,) if MEMBERS in columns else ()),
        *((OF_FAULT,) if FAULT in columns else ()),
        *(SPENT if EPSILON in columns else ()),
    )


def clients_schema(global_model: bool = False, columns: Collection[str] = NONE) -> pa.Schema:
    """Return the schema of `clients.parquet`; arguments as of `schemas`."""
    return schema_of(client_columns(global_model, columns))


CLIENTS = clients_schema()
"""Of a run that does not test the global model."""

TIMINGS = schema_of(TIMING)
EVERY_TIMING = schema_of((*TIMING, *MESSAGE_SECONDS))
"""Those of any algorithm."""

EVERY_COLUMN = {
    "rounds": round_columns((COUNTS, EPSILON, CENTRALISED, MESSAGE)),
    "clients": client_columns(True, (MEMBERS, FAULT, EPSILON)),
    "timings": (*TIMING, *MESSAGE_SECONDS),
}
"""Name of a file, without its suffix -> every column that some run has."""
ROUND_NUMBERS = frozenset(column.name for column in EVERY_COLUMN["rounds"])


def schemas(global_model: bool = False, columns: Collection[str] = NONE) -> dict[str, pa.Schema]:
    """Return name of the file, without its suffix -> columns.

    `global_model` is `evaluation.global_model`, `columns` are the run's own (`algorithm_of.own_columns`).
    """
    clients = clients_schema(global_model, columns)
    timings = EVERY_TIMING if MESSAGE in columns else TIMINGS
    return {"rounds": rounds_schema(columns), "clients": clients, "timings": timings}
