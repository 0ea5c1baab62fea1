"""Tables say their format and are checked: those of others are refused, changed ones are damaged."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.runtime.integrity.tables import read_table, stamp_table
from fedgrid.engine.runtime.storage.format import METADATA, DamagedFile, OtherVersion

SCHEMA = pa.schema({"round": pa.int32(), "loss": pa.float64()})
TABLE = pa.Table.from_pylist([{"round": 1, "loss": 0.5}, {"round": 2, "loss": 0.25}], schema=SCHEMA)
LISTS = pa.table({"counts": pa.array([[1, 0, 2], [], None, [0, 3, 3]], pa.list_(pa.int32()))})


def write(path, table, **metadata):
    about = {
        **stamp_table(table).schema.metadata,
        **{name.encode(): value for name, value in metadata.items()},
    }
    pq.write_table(table.replace_schema_metadata(about), path, write_page_checksum=True)
    return path


def test_table_is_read_as_it_was(tmp_path):
    assert read_table(write(tmp_path / "a.parquet", TABLE), SCHEMA).equals(TABLE)


def test_table_of_another_version_is_refused(tmp_path):
    for version, error in ((FORMAT + 1, OtherVersion),):
        with pytest.raises(error):
            read_table(write(tmp_path / "a.parquet", TABLE, **{METADATA: str(version).encode()}), SCHEMA)


def test_column_that_is_not_known_is_of_a_newer_fedgrid(tmp_path):
    table = TABLE.append_column("unheard_of", pa.array([1, 2]))
    with pytest.raises(OtherVersion, match="column unheard_of"):
        read_table(write(tmp_path / "a.parquet", table), SCHEMA)


def test_table_whose_columns_are_not_those_it_names_is_damaged(tmp_path):
    renamed = TABLE.rename_columns(["round", "lost"]).replace_schema_metadata(
        stamp_table(TABLE).schema.metadata
    )
    pq.write_table(renamed, tmp_path / "a.parquet")
    with pytest.raises(DamagedFile, match="columns"):
        read_table(tmp_path / "a.parquet", SCHEMA)


@pytest.mark.parametrize("bit", [0x80, 0x08], ids=["high", "middle"])
def test_list_table_with_a_flipped_bit_anywhere_is_damaged_or_read_as_it_was(bit, tmp_path):
    """Bits that a reader of Parquet does not look at may change; names that are no text are damage."""
    path = write(tmp_path / "a.parquet", LISTS)
    data, refused = path.read_bytes(), 0
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        try:
            assert read_table(path, LISTS.schema).equals(LISTS), at
        except (DamagedFile, OtherVersion):
            refused += 1
    assert refused > len(data) / 2


def test_table_without_a_format_is_damaged(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    with pytest.raises(DamagedFile, match="has no format"):
        read_table(tmp_path / "a.parquet", SCHEMA)
