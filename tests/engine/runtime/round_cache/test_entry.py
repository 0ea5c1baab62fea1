"""An entry of the round cache: any arrays as bytes and back; damage is noticed."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load, save

from fedgrid.engine.runtime.round_cache import entry as cache_entry
from fedgrid.engine.runtime.round_cache.entry import CacheEntry, StorageSpeed, decode, encode, measure
from fedgrid.engine.runtime.round_cache.files import CacheFiles, CacheOptions, kept
from fedgrid.engine.runtime.storage.sealed_arrays import ABOUT, CHECKSUM, Damaged, about_arrays
from fedgrid.engine.runtime.storage.storage import Storage

SLOW = StorageSpeed(bytes_per_second=1000.0, round_trip=0.25)


def test_seconds_are_the_round_trip_and_the_bytes():
    assert SLOW.seconds(500) == 0.75
    assert StorageSpeed().seconds(1 << 40) == 0.0


@pytest.mark.parametrize(("cost", "is_written"), [(0.74, False), (0.75, True)])
def test_entry_is_written_from_the_cost_of_a_write_and_a_read_on(tmp_path, cost, is_written):
    """500 bytes."""
    storage = Storage.of(tmp_path)
    entry = CacheEntry({"values": np.zeros(125, np.float32)}, "one", 0.0, cost)
    CacheFiles(storage, "shared_prefix", "one", CacheOptions(speed=SLOW)).write("000001-ab-reports", entry)
    assert len(kept(storage)) == is_written


def test_speed_is_of_a_large_file_less_an_empty_one(tmp_path, monkeypatch):
    """An empty file takes 0.5 s, one of 8 MiB 2.5 s: 4 MiB a second and a round trip of 0.5 s."""
    times = iter([10.0, 10.5, 20.0, 22.5])
    monkeypatch.setattr(cache_entry, "perf_counter", lambda: next(times))
    assert measure(Storage.of(tmp_path), "cache") == StorageSpeed(4 << 20, 0.5)


@pytest.mark.parametrize("uri", [False, True])
def test_nothing_is_left_of_a_measurement(tmp_path, monkeypatch, uri):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "mirror"))
    storage = Storage.of(f"local://{tmp_path}/bucket" if uri else tmp_path / "runs")
    assert measure(storage, "cache").bytes_per_second < float("inf")
    assert list(tmp_path.rglob("speed*")) == []


def test_storage_that_cannot_be_written_has_the_default(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder was")
    assert measure(Storage.of(tmp_path / "runs"), "cache") == StorageSpeed()


DTYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
NAMES = st.text('aB_é"\\ \n\0', max_size=4)
ARRAYS = arrays_of.arrays(
    st.sampled_from(DTYPES), arrays_of.array_shapes(min_dims=0, min_side=0, max_dims=2, max_side=3)
)


NAME = "000002-1f3870be274f-mean"


def encoded(kept):
    return encode(kept, NAME)


def decoded(data):
    return decode(data, NAME)


def entry(**arrays):
    return CacheEntry(arrays, computed_by="1f3870be274f", seconds=0.1, cost=12.5)


def bits(kept):
    """Return all that an entry holds, for comparisons in which NaN equals NaN and 0 is not -0."""
    arrays = {
        name: (array.dtype, array.shape, np.ascontiguousarray(array).tobytes())
        for name, array in kept.arrays.items()
    }
    return arrays, kept.computed_by, kept.seconds, kept.cost, kept.updates


def returned(kept):
    """Return what becomes of an entry as bytes and back."""
    return bits(decoded(encoded(kept)))


def small():
    return entry(gram_KK=np.array([[1.5, -0.0], [np.nan, 2.0]]), usable_K=np.array([True, False]))


def with_header(header, length=None):
    """Return bytes that begin as an entry's, with this JSON for a header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text


class TestAsBytesAndBack:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3,), (2, 3), (2, 1, 3)], ids=str)
    def test_every_type_and_shape_comes_back(self, dtype, shape):
        size = int(np.prod(shape))
        kept = entry(values=np.arange(1, size + 1).astype(dtype).reshape(shape))
        assert returned(kept) == bits(kept)

    @pytest.mark.parametrize("value", [np.nan, -0.0, inf, -inf, 5e-324, 0.1])
    def test_every_float_comes_back_bit_by_bit(self, value):
        kept = entry(single=np.float32([value]), double=np.float64([value]), scalar=np.array(value))
        assert returned(kept) == bits(kept)

    def test_strided_arrays_come_back(self):
        rows = np.arange(12.0).reshape(3, 4)
        kept = entry(
            transposed=rows.T,
            strided=rows[::2, ::-1],
            fortran=np.asfortranarray(rows),
            spread=rows[:1, :1] + 0,
        )
        assert returned(kept) == bits(kept)

    def test_read_only_arrays_come_back(self):
        values = np.arange(3)
        values.setflags(write=False)
        assert decoded(encoded(entry(values=values))).arrays["values"].tolist() == [0, 1, 2]

    def test_entry_without_arrays_comes_back(self):
        assert returned(entry()) == bits(entry())

    @pytest.mark.parametrize("seconds", [0.0, 0.1, 1 / 3, 1e-300, 1e300, inf])
    def test_run_and_seconds_come_back_to_the_last_digit(self, seconds):
        kept = replace(
            small(), computed_by="an idée, 'quoted'", seconds=seconds, cost=seconds / 7, updates="a1"
        )
        assert returned(kept) == bits(kept)

    @settings(max_examples=50, deadline=None)
    @given(st.dictionaries(NAMES, ARRAYS, max_size=3), NAMES, st.floats(allow_nan=False))
    def test_random_entries_come_back(self, arrays, computed_by, seconds):
        kept = CacheEntry(arrays, computed_by, seconds, seconds)
        assert returned(kept) == bits(kept)

    def test_entry_is_a_safetensors_file(self):
        found = load(encoded(small()))
        assert set(found) == {"gram_KK", "usable_K"}
        assert found["usable_K"].tolist() == [True, False]


class TestDamage:
    def test_every_flipped_bit_is_noticed(self):
        """Or it changes nothing, as between the header's end and the data."""
        kept = small()
        whole = encoded(kept)
        for position in range(8 * len(whole)):
            data = bytearray(whole)
            data[position // 8] ^= 1 << position % 8
            try:
                found = decoded(bytes(data))
            except Damaged:
                continue
            assert bits(found) == bits(kept), f"bit {position}"

    def test_another_name_is_noticed(self):
        """An entry under another entry's name."""
        with pytest.raises(Damaged):
            decode(encode(small(), NAME), NAME.replace("mean", "products"))

    def test_every_cut_is_noticed(self):
        whole = encoded(small())
        for length in range(len(whole)):
            with pytest.raises(Damaged):
                decoded(whole[:length])

    @pytest.mark.parametrize("more", [b"\0", b" ", b"\0" * 512])
    def test_added_bytes_are_noticed(self, more):
        with pytest.raises(Damaged):
            decoded(encoded(small()) + more)

    def test_hole_is_noticed(self):
        """A block that never came to the disk, as after a power cut."""
        whole = encoded(entry(mean_P=np.ones(1000, np.float32)))
        for start in range(0, len(whole), 512):
            with pytest.raises(Damaged):
                decoded(whole[:start] + bytes(len(whole[start : start + 512])) + whole[start + 512 :])

    def test_swapped_values_are_noticed(self):
        first, second = np.float32([1, 2]), np.float32([3, 4])
        about = about_arrays(encoded(entry(a=first, b=second)))
        for arrays in ({"a": second, "b": first}, {"a": first}, {"a": first, "c": second}):
            with pytest.raises(Damaged):
                decoded(save(arrays, {ABOUT: json.dumps(about)}))

    @pytest.mark.parametrize("array", [np.int32([1, 2]), np.float32([[1, 2]]), np.float32([1, 2, 0])])
    def test_another_type_or_shape_is_noticed(self, array):
        about = about_arrays(encoded(entry(values=np.array([1, 2], np.float32))))
        with pytest.raises(Damaged):
            decoded(save({"values": array}, {ABOUT: json.dumps(about)}))

    @pytest.mark.parametrize(
        "change", [{"cost": 1.0}, {"seconds": 9.0}, {"computed_by": "other"}, {CHECKSUM: "0" * 64}]
    )
    def test_other_metadata_is_noticed(self, change):
        whole = encoded(small())
        with pytest.raises(Damaged):
            decoded(save(load(whole), {ABOUT: json.dumps({**about_arrays(whole), **change})}))

    @pytest.mark.parametrize("missing", ["cost", "seconds", "computed_by", CHECKSUM])
    def test_missing_metadata_is_noticed(self, missing):
        whole = encoded(small())
        about = {name: value for name, value in about_arrays(whole).items() if name != missing}
        with pytest.raises(Damaged):
            decoded(save(load(whole), {ABOUT: json.dumps(about)}))

    @pytest.mark.parametrize("change", [{"cost": "cheap"}, {"computed_by": 7}, {"seconds": None}])
    def test_description_with_other_types_is_noticed(self, change):
        """With the right checksum."""
        with pytest.raises(Damaged):
            decoded(encoded(replace(small(), **change)))

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\0" * 7,
            b"\0" * 8,
            b"\xff" * 8,
            b"PAR1 is another format",
            with_header(b"{", 2**64 - 1),
            with_header({"__metadata__": {"cost": "1"}}, 2**63),
            with_header({"__metadata__": {"cost": "1"}}, 2**40),
            with_header(b"not JSON"),
            with_header(b"\xff\xfe\xfd"),
            with_header(b"[" * 100_000),
            with_header(b"1" * 10_000),
            with_header({}),
            with_header([]),
            with_header(None),
            with_header({"__metadata__": None}),
            with_header({"__metadata__": []}),
            with_header({"__metadata__": "cost"}),
            with_header({"__metadata__": 1}),
            with_header({"__metadata__": {}}),
            with_header({"__metadata__": {"cost": {}}}),
            with_header({"__metadata__": {}, "a": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}})
            + b"1",
            with_header({"__metadata__": {}, "a": {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 4]}})
            + b"1234",
        ],
        ids=lambda data: repr(data[:60]),
    )
    def test_bytes_that_are_no_entry_are_noticed(self, data):
        with pytest.raises(Damaged):
            decoded(data)


class TestAbout:
    def test_description_is_read_from_the_first_bytes_alone(self):
        whole = encoded(entry(mean_P=np.ones(100_000, np.float32)))
        about = about_arrays(whole[:1024])
        assert (about["computed_by"], about["seconds"], about["cost"]) == ("1f3870be274f", 0.1, 12.5)

    @pytest.mark.parametrize("data", [b"", b"\xff" * 8, with_header([]), with_header({"__metadata__": 1})])
    def test_bytes_that_are_no_entry_have_no_description(self, data):
        with pytest.raises(Damaged):
            about_arrays(data)

    def test_entry_cut_within_its_description_has_none(self):
        with pytest.raises(Damaged):
            about_arrays(encoded(small())[:100])
