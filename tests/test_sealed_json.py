"""Sealed files are read as they were written; changed ones are damaged, those of other layouts refused."""

import json

import pytest

from fedgrid.engine.runtime.storage.format import DamagedFile, OtherVersion, unseal_file
from fedgrid.sealed_json import LAYOUT, BadFile, OtherLayout, seal_values, unseal_text

VALUES = {"loss": 0.1, "names": ["a", "b"], "best": None}


def test_sealed_values_are_read_as_they_were():
    text = seal_values(VALUES, indent=2)
    assert json.loads(text)["layout"] == LAYOUT
    assert unseal_text(text) == VALUES


def test_flipped_bit_anywhere_in_a_sealed_file_is_noticed():
    """A bit of the layout may make it another one, which is refused too."""
    whole = seal_values(VALUES).encode()
    for place in range(len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        with pytest.raises(BadFile):
            unseal_text(bytes(flipped))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"layout": true}', "[" * 100_000, '{"layout": 2}'])
def test_what_is_no_sealed_file_is_damaged(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DamagedFile) as error:
        unseal_file(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ['{"layout": 3}', '{"format": 1, "sha256": "of the first layout"}'])
def test_sealed_file_of_another_layout_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(OtherLayout):
        unseal_text(text)
    with pytest.raises(OtherVersion, match=f"{path} was written by .* fedgrid .*--storage"):
        unseal_file(path)
