"""Small Parquet files that unpack to much: refused before they are read, whatever they state."""

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid import parquet_files
from fedgrid.engine.runtime.integrity.files import read_table, stamped
from fedgrid.engine.runtime.storage.format import UnreadableFile
from fedgrid.parquet_files import BadPages, TooLarge, layout, memory, pages_of, read_parquet
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.records import table as records

MANY = 300_000
LONG = "x" * 10_000


@pytest.fixture
def megabyte(monkeypatch):
    """A machine with four megabytes of memory, of which a table may take one."""
    monkeypatch.setattr(parquet_files, "memory", lambda: 4_000_000)


def column(path, values, **options):
    pq.write_table(pa.table({"a": values}), path, **options)
    return path


def read(path):
    return read_parquet(path, lambda schema: schema.names)


def one_list(length):
    return pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), pa.repeat(0.0, length))


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (pa.repeat(0.0, MANY), {}),
        (one_list(MANY), {}),
        (pa.array([bytes(2_000_000)]), {"compression": "zstd", "use_dictionary": False}),
        (pa.repeat(LONG, 1000), {}),
        (pa.repeat(LONG.encode(), 1000), {}),
    ],
    ids=["a number", "a list", "zeros", "a text", "bytes"],
)
@pytest.mark.usefixtures("megabyte")
def test_small_file_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, values, options):
    path = column(tmp_path / "a.parquet", values, **options)
    assert path.stat().st_size < 20_000
    with pytest.raises(TooLarge, match=r"0\.0 GB of memory, more than a quarter"):
        read(path)


def test_what_fits_is_read_as_it_was(tmp_path):
    table = pa.table(
        {"a": [1.5, None], "l": [[1, 2], []], "t": ["x", None], "b": [b"", b"y"], "f": [True, None]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").equals(table)
    assert read_parquet(tmp_path / "a.parquet", lambda _: ["t", "a"]).equals(table.select(["t", "a"]))


@pytest.mark.usefixtures("megabyte")
def test_short_texts_are_read_although_a_long_one_is_among_them(tmp_path):
    """By the headers each of 1,000 could be the long one, ten megabytes; they are 13,990 bytes."""
    values = pa.array(["text"] * 999 + [LONG])
    assert read(column(tmp_path / "a.parquet", values)).equals(pa.table({"a": values}))


def varint(number, length):
    """Return a number as Thrift has it, in that many bytes."""
    return bytes((2 * number >> 7 * place) & 127 | (place < length - 1) << 7 for place in range(length))


def test_pages_that_hold_more_than_the_end_of_the_file_states_are_refused(tmp_path):
    """Arrow reads them: one row with a list of one value, says the end, and 300,000 are read."""
    path = column(tmp_path / "a.parquet", one_list(MANY))
    data = path.read_bytes()
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:at] + data[at:].replace(varint(MANY, 3), varint(1, 3)))
    assert pq.read_metadata(path).row_group(0).column(0).num_values == 1
    assert len(pq.read_table(path)["a"][0]) == MANY
    with pytest.raises(BadPages, match="other sizes"):
        read(path)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_encodings_that_fedgrid_does_not_write_are_refused(tmp_path, encoding):
    path = column(
        tmp_path / "a.parquet", pa.array([LONG] * 9), use_dictionary=False, column_encoding={"a": encoding}
    )
    with pytest.raises(BadPages, match="header"):
        read(path)


def test_layout_is_what_arrow_says_of_it(tmp_path):
    table = pa.table({"a": pa.array(range(50_000)), "l": [[1.0] * (row % 3) for row in range(50_000)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30_000)
    about = pq.read_metadata(tmp_path / "a.parquet")
    with (tmp_path / "a.parquet").open("rb") as file:
        rows, groups = layout(file)
        assert rows == about.num_rows == 50_000
        for at, group in enumerate(groups):
            for place, chunk in enumerate(group):
                expected = about.row_group(at).column(place)
                assert chunk.values == expected.num_values
                assert chunk.end - chunk.place == expected.total_compressed_size
                pages = list(pages_of(file, chunk))
                assert [page.is_dictionary for page in pages] == [True] + [False] * (len(pages) - 1)
                unpacked = sum(page.unpacked for page in pages)
                assert 0.9 * expected.total_uncompressed_size < unpacked < expected.total_uncompressed_size


@pytest.mark.parametrize("kind", [1, 2, 3, 5, 7, 8, 9, 12])
def test_end_with_a_list_longer_than_itself_is_refused_at_once(kind):
    """Field 1 is a list of 2 ** 42 - 1 elements of a type; most of them would take no byte of the file."""
    end = bytes([0x19, 0xF0 | kind, *[0xFF] * 5, 0x7F, 0])
    with pytest.raises(BadPages, match="end"):
        layout(BytesIO(b"PAR1" + end + len(end).to_bytes(4, "little") + b"PAR1"))


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
    with pytest.raises(UnreadableFile, match=r"rounds\.parquet cannot be read: .* of memory"):
        read_table(tmp_path / "rounds.parquet", table.schema)
    with pytest.raises(RecordsError, match=r"cannot read .*rounds\.parquet: .* of memory"):
        records(tmp_path, "rounds")
