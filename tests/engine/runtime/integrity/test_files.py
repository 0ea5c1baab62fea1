"""Files say their format and are checked: newer and older ones are refused, changed ones are damaged."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from fedgrid.algorithms.contract.base import State
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.integrity.files import checksum, read_table, stamped
from fedgrid.engine.runtime.integrity.mark import state_names
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.storage.format import METADATA, DamagedFile, NewerFormat, seal, unseal

VALUES = {"loss": 0.1, "names": ["a", "b"], "best": None}
SCHEMA = pa.schema({"round": pa.int32(), "loss": pa.float64()})
TABLE = pa.Table.from_pylist([{"round": 1, "loss": 0.5}, {"round": 2, "loss": 0.25}], schema=SCHEMA)
LISTS = pa.table({"counts": pa.array([[1, 0, 2], [], None, [0, 3, 3]], pa.list_(pa.int32()))})
PROGRESS = RunState(1, State((np.ones(3, np.float32),), np.zeros(2, np.int64)))


def test_sealed_values_are_read_as_they_were(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(seal(VALUES, indent=2))
    assert json.loads(path.read_text())["format"] == FORMAT
    assert unseal(path) == VALUES


def test_flipped_bit_anywhere_in_a_sealed_file_is_noticed(tmp_path):
    """A bit of the format may make it a newer one, which is refused too."""
    path = tmp_path / "a.json"
    whole = seal(VALUES).encode()
    for place in range(len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        with pytest.raises((DamagedFile, NewerFormat)):
            unseal(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', '{"format": true}', "[" * 100_000])
def test_what_is_no_sealed_file_is_damaged(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DamagedFile) as error:
        unseal(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("version", "error"), [(FORMAT + 1, NewerFormat)])
def test_sealed_file_of_another_version_is_refused(tmp_path, version, error):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"format": version}))
    with pytest.raises(error, match=f"{path} was written by .* fedgrid .*--storage"):
        unseal(path)


def write(path, table, **metadata):
    about = {**stamped(table).schema.metadata, **{name.encode(): value for name, value in metadata.items()}}
    pq.write_table(table.replace_schema_metadata(about), path, write_page_checksum=True)
    return path


def test_table_is_read_as_it_was(tmp_path):
    assert read_table(write(tmp_path / "a.parquet", TABLE), SCHEMA).equals(TABLE)


def test_table_of_another_version_is_refused(tmp_path):
    for version, error in ((FORMAT + 1, NewerFormat),):
        with pytest.raises(error):
            read_table(write(tmp_path / "a.parquet", TABLE, **{METADATA: str(version).encode()}), SCHEMA)


def test_column_that_is_not_known_is_of_a_newer_fedgrid(tmp_path):
    table = TABLE.append_column("unheard_of", pa.array([1, 2]))
    with pytest.raises(NewerFormat, match="column unheard_of"):
        read_table(write(tmp_path / "a.parquet", table), SCHEMA)


def test_table_whose_columns_are_not_those_it_names_is_damaged(tmp_path):
    renamed = TABLE.rename_columns(["round", "lost"]).replace_schema_metadata(stamped(TABLE).schema.metadata)
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
        except (DamagedFile, NewerFormat):
            refused += 1
    assert refused > len(data) / 2


def test_table_without_a_format_is_damaged(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    with pytest.raises(DamagedFile, match="has no format"):
        read_table(tmp_path / "a.parquet", SCHEMA)


def test_state_of_a_newer_fedgrid_is_refused(tmp_path):
    """Its checksum is right: it is not damaged."""
    checkpoint.save(tmp_path, PROGRESS, {})
    state, sums = (tmp_path / name for name in state_names(1))
    save_file(load_file(state), state, metadata={METADATA: str(FORMAT + 1)})
    sums.write_text(f"{checksum(state)}  {state.name}\n")
    with pytest.raises(NewerFormat):
        checkpoint.load(tmp_path, 1)
