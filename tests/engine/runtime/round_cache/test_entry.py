"""An entry of the round cache: any arrays as bytes and back; damage is noticed; what is worth its bytes."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load, save

from fedgrid.engine.runtime.round_cache.files import CacheEntry, decode_entry, encode_entry
from fedgrid.engine.runtime.storage.sealed_arrays import ABOUT, CHECKSUM, DamagedArrays, read_description

NAME = "000002-1f3870be274f-mean"
SMALL = CacheEntry(
    {"gram_KK": np.array([[1.5, -0.0], [np.nan, 2.0]]), "usable_K": np.array([True, False])}, "one", 0.1, 12.5
)
DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
NAMES = st.text('aB_é"\\ \n\0', max_size=4)
ARRAYS = arrays_of.arrays(
    st.sampled_from(DTYPES), arrays_of.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3)
)
ROWS = np.arange(12.0).reshape(3, 4)


def bits(entry):
    """Return all that an entry holds, for comparisons in which NaN equals NaN and 0 is not -0."""
    arrays = {
        name: (array.dtype, array.shape, np.ascontiguousarray(array).tobytes())
        for name, array in entry.arrays.items()
    }
    return arrays, replace(entry, arrays={})


def is_damaged(data, name=NAME):
    try:
        return bits(decode_entry(data, name)) != bits(SMALL) and "read as another"
    except DamagedArrays:
        return True


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, ARRAYS, max_size=3), NAMES, st.floats(allow_nan=False))
@example({"transposed": ROWS.T, "strided": ROWS[::2, ::-1], "one": np.array(5e-324)}, "a 'b'", inf)
def test_random_entries_come_back(arrays, computed_by, seconds):
    entry = CacheEntry(arrays, computed_by, seconds, seconds / 7, "a1")
    assert bits(decode_entry(encode_entry(entry, NAME), NAME)) == bits(entry)


def test_entry_is_a_safetensors_file_whose_first_bytes_describe_it():
    whole = encode_entry(SMALL, NAME)
    assert load(whole)["usable_K"].tolist() == [True, False]
    long = encode_entry(replace(SMALL, arrays={"mean_P": np.ones(100_000, np.float32)}), NAME)
    assert read_description(long[:1024])["cost"] == 12.5


class TestDamage:
    WHOLE = encode_entry(SMALL, NAME)

    def test_every_flipped_bit_cut_hole_and_added_byte_is_noticed_or_changes_nothing(self):
        for position in range(8 * len(self.WHOLE)):
            data = bytearray(self.WHOLE)
            data[position // 8] ^= 1 << position % 8
            assert is_damaged(bytes(data)) in (True, False), f"bit {position}"
        for place in range(len(self.WHOLE)):
            hole = self.WHOLE[:place] + bytes(len(self.WHOLE) - place)
            assert is_damaged(self.WHOLE[:place]) is True
            assert is_damaged(hole) is True or hole == self.WHOLE
        assert is_damaged(self.WHOLE + b"\0") is True

    def test_checksum_covers_names_types_shapes_values_and_description(self):
        about, arrays = read_description(self.WHOLE), load(self.WHOLE)
        gram = arrays["gram_KK"]
        for changed in (
            {"gram": gram},
            {"gram_KK": gram.view("i8")},
            {"gram_KK": gram.ravel()},
            {"more": gram},
        ):
            rest = {"usable_K": arrays["usable_K"]} | ({"gram_KK": gram} if "more" in changed else {})
            assert is_damaged(save({**rest, **changed}, {ABOUT: json.dumps(about)})) is True
        for key in about:
            lacking = {name: value for name, value in about.items() if name != key}
            for other in (lacking, {**about, key: "0" * 64 if key in (CHECKSUM, "computed_by") else 9.0}):
                assert is_damaged(save(arrays, {ABOUT: json.dumps(other)})) is True
        assert is_damaged(self.WHOLE, NAME.replace("mean", "tests")) is True

    @pytest.mark.parametrize(
        "header", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"{}", b"[]", b"null", b'{"__metadata__": null}']
    )
    def test_bytes_that_are_no_entry_have_no_description(self, header):
        for length in (len(header), 2**40, 2**64 - 1):
            data = length.to_bytes(8, "little") + header
            for read in (read_description, lambda data: decode_entry(data, NAME)):
                with pytest.raises(DamagedArrays):
                    read(data)
