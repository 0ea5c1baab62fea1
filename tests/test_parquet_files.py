"""Parquet files that declare more than the memory, or hold what their columns cannot, are refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid import parquet_files
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.integrity.tables import read_table, stamp_table
from fedgrid.engine.runtime.run.records import read_records as read_rows
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile
from fedgrid.manifest import MANIFEST
from fedgrid.parquet_files import find_wrong_type, find_wrong_value, read_memory_limit, read_parquet
from fedgrid.record_columns import EVERY_COLUMN, TIMINGS, build_schema, find_column
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.records import RecordsError, read_records
from fedgrid.tracking.records import read_table as records
from tests.helpers.manifests import edit_table, list_files
from tests.helpers.run_records import write_records


def changed(folder, name, column, values):
    """Put other values into a column of a table of two rounds and two clients."""

    def change(table):
        return table.set_column(table.column_names.index(column), column, pa.array(values))

    edit_table(folder, name, change)


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
        ("rounds", "temperature", [0.5, float("inf")], "'temperature' has the value inf"),
        ("rounds", "bytes_up", [1, 1 << 62], "'bytes_up' has the value 4611686018427387904"),
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
        read_rows(folder, "timings", build_schema(TIMINGS))


@pytest.mark.parametrize("column", ["train_loss", "update_norm"])
def test_loss_and_norm_of_a_training_that_diverged_are_read(column):
    assert find_wrong_value(pa.table({column: [float("inf"), float("nan"), 1e38]}), find_column) is None


@pytest.mark.parametrize("columns", EVERY_COLUMN.values(), ids=EVERY_COLUMN)
def test_declared_columns_are_read(columns):
    assert find_wrong_type(build_schema(columns), find_column) is None
    assert find_wrong_value(build_schema(columns).empty_table(), find_column) is None


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
    values = {"run_id": "", "rounds": 1, "rounds_done": 0, "finished": False, "states": {}, "files": {}}
    (tmp_path / MANIFEST).write_text(seal_values({**values, "made_with": [part]}))
    with pytest.raises(DamagedFile, match="it is no manifest"):
        load_parts(tmp_path)


MANY = 300_000


@pytest.fixture
def megabyte(monkeypatch):
    """A machine with four megabytes of memory, of which a table may take one."""
    monkeypatch.setattr(parquet_files, "read_memory_limit", lambda: 4_000_000)


def read(path, *columns):
    with path.open("rb") as data:
        return read_parquet(data, lambda schema: columns or schema.names)


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (pa.repeat(0.0, MANY), {}),
        (pa.array([bytes(2_000_000)]), {"compression": "zstd", "use_dictionary": False}),
    ],
    ids=["a number", "zeros"],
)
@pytest.mark.usefixtures("megabyte")
def test_small_file_that_declares_more_than_the_memory_is_refused(tmp_path, values, options):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": values}), path, **options)
    assert path.stat().st_size < 20_000
    with pytest.raises(OSError, match=r"0\.0 GB of memory, more than a quarter"):
        read(path)


@pytest.mark.usefixtures("megabyte")
def test_what_fits_is_read_as_it_was(tmp_path):
    table = pa.table(
        {"a": [1.5, None], "l": [[1, 2], []], "t": ["x", None], "b": [b"", b"y"], "f": [True, None]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").equals(table)
    assert read(tmp_path / "a.parquet", "t", "a").equals(table.select(["t", "a"]))


def test_memory_is_what_a_container_may_use(tmp_path, monkeypatch):
    whole = read_memory_limit()
    monkeypatch.setattr(parquet_files, "CONTAINER_LIMIT", tmp_path / "memory.max")
    assert read_memory_limit() >= whole
    (tmp_path / "memory.max").write_text("max\n")
    assert read_memory_limit() >= whole
    (tmp_path / "memory.max").write_text("1000000\n")
    assert read_memory_limit() == 1_000_000


@pytest.mark.usefixtures("megabyte")
def test_table_that_is_too_large_here_is_not_taken_for_damaged(tmp_path):
    """It may be whole: on a machine with more memory the run goes on."""
    table = pa.table({"round": pa.repeat(pa.scalar(1, pa.int32()), MANY)})
    pq.write_table(stamp_table(table), tmp_path / "rounds.parquet")
    with pytest.raises(UnreadableFile, match=r"rounds\.parquet cannot be read: it would .* of memory"):
        read_table(tmp_path / "rounds.parquet", table.schema)
    list_files(tmp_path)
    with pytest.raises(RecordsError, match=r"cannot read .*rounds\.parquet: it would .* of memory"):
        records(tmp_path, "rounds")
