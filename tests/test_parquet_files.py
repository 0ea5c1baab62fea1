"""Parquet files that declare more than the memory are refused before they are read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid import parquet_files
from fedgrid.engine.runtime.integrity.files import read_table, stamped
from fedgrid.engine.runtime.storage.format import UnreadableFile
from fedgrid.parquet_files import memory, read_parquet
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.records import table as records

MANY = 300_000


@pytest.fixture
def megabyte(monkeypatch):
    """A machine with four megabytes of memory, of which a table may take one."""
    monkeypatch.setattr(parquet_files, "memory", lambda: 4_000_000)


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
    whole = memory()
    monkeypatch.setattr(parquet_files, "CONTAINER", tmp_path / "memory.max")
    assert memory() >= whole
    (tmp_path / "memory.max").write_text("max\n")
    assert memory() >= whole
    (tmp_path / "memory.max").write_text("1000000\n")
    assert memory() == 1_000_000


@pytest.mark.usefixtures("megabyte")
def test_table_that_is_too_large_here_is_not_taken_for_damaged(tmp_path):
    """It may be whole: on a machine with more memory the run goes on."""
    table = pa.table({"round": pa.repeat(pa.scalar(1, pa.int32()), MANY)})
    pq.write_table(stamped(table), tmp_path / "rounds.parquet")
    with pytest.raises(UnreadableFile, match=r"rounds\.parquet cannot be read: it would .* of memory"):
        read_table(tmp_path / "rounds.parquet", table.schema)
    with pytest.raises(RecordsError, match=r"cannot read .*rounds\.parquet: it would .* of memory"):
        records(tmp_path, "rounds")
