"""What a stranger may have written into a table, with right checksums: types and values that cannot be."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.runtime.integrity.files import stamped
from fedgrid.engine.runtime.integrity.made_with import MADE_WITH, parts_of
from fedgrid.engine.runtime.integrity.record_files import read_records as read_rows
from fedgrid.engine.runtime.storage.format import DamagedFile, seal
from fedgrid.record_columns import EVERY_COLUMN, TIMINGS, schema_of
from fedgrid.record_values import wrong_type, wrong_value
from fedgrid.tracking.records import RecordsError, read_records
from tests.helpers.run_records import write_records


def changed(folder, name, column, values):
    """Put other values into a column of a table of two rounds and two clients."""
    path = folder / f"{name}.parquet"
    table = pq.read_table(path)
    place = table.column_names.index(column)
    pq.write_table(stamped(table.set_column(place, column, pa.array(values))), path)


@pytest.fixture
def folder(tmp_path):
    return write_records(tmp_path / "run", [[0, 0], [0, 1]], [0, 1])


@pytest.mark.parametrize(
    ("name", "column", "values", "why"),
    [
        (
            "clients",
            "cluster",
            ["0", "0", "0", "1"],
            "'cluster' has values of type string, not whole numbers",
        ),
        ("clients", "cluster", [0, 0, 0, None], "'cluster' lacks values"),
        ("clients", "client", [0, 0, 0, 0], "not numbered from 0 on"),
        ("clients", "part", [1, 1, 1, 1], "'part' has values of type int64, not text"),
        ("clients", "train_accuracy", [0.5, 0.5, 0.5, 1.5], "'train_accuracy' has the value 1.5"),
        ("rounds", "round", [1, 1], "do not have one row per round and client"),
        ("rounds", "round", [-1, 2], "'round' has the value -1"),
        ("rounds", "temperature", [0.5, float("inf")], "'temperature' has the value inf"),
        ("rounds", "bytes_up", [1, 1 << 62], "'bytes_up' has the value 4611686018427387904"),
        ("timings", "uncached_seconds", [1.0, -1.0], "'uncached_seconds' has the value -1.0"),
    ],
)
def test_table_with_what_cannot_be_is_not_read(folder, name, column, values, why):
    changed(folder, name, column, values)
    with pytest.raises(RecordsError, match=why):
        read_records(folder)


@pytest.mark.parametrize("values", [[0.5, None], [0.5, 1e12], [0.5, float("-inf")], ["a", "b"]])
def test_seconds_that_cannot_be_are_damage(folder, values):
    changed(folder, "timings", "seconds", values)
    with pytest.raises(DamagedFile, match=r"timings\.parquet is damaged"):
        read_rows(folder, "timings", schema_of(TIMINGS))


@pytest.mark.parametrize("column", ["train_loss", "update_norm"])
def test_loss_and_norm_of_a_training_that_diverged_are_read(column):
    assert wrong_value(pa.table({column: [float("inf"), float("nan"), 1e38]})) is None


@pytest.mark.parametrize("columns", EVERY_COLUMN.values(), ids=EVERY_COLUMN)
def test_declared_columns_are_read(columns):
    assert wrong_type(schema_of(columns)) is None
    assert wrong_value(schema_of(columns).empty_table()) is None


def test_name_in_two_files_allows_the_same_in_both():
    declared = [column for columns in EVERY_COLUMN.values() for column in columns]
    limits = {(each.name, each.least, each.greatest, each.required, each.infinite) for each in declared}
    assert len(limits) == len({column.name for column in declared})


@pytest.mark.parametrize(
    "part",
    [
        {"from_round": 1, "code": "a", "python": [[[]]]},
        {"from_round": "1", "code": "a"},
        {"from_round": 1},
        {"from_round": 0, "code": "a"},
        [],
    ],
)
def test_parts_of_other_types_are_damage(tmp_path, part):
    (tmp_path / MADE_WITH).write_text(seal({"parts": [part]}))
    with pytest.raises(DamagedFile, match="it does not list parts"):
        parts_of(tmp_path / MADE_WITH)
