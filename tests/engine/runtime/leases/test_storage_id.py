"""A storage has one id, on every machine, for as long as its files are there."""

import json

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.storage_id import claim_storage_id, read_storage_id
from fedgrid.engine.runtime.storage import atomic
from fedgrid.engine.runtime.storage.format import OtherVersion
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.sealed_json import LAYOUT


def test_id_stays_when_the_storage_is_moved(tmp_path):
    first = read_storage_id(tmp_path / "runs")
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert read_storage_id(tmp_path / "moved") == first
    assert read_storage_id(tmp_path / "other") != first


def test_every_machine_sees_the_id_of_a_uri(tmp_path, monkeypatch):
    found = []
    for machine in ("a", "b"):
        monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / machine))
        found.append(claim_storage_id(Storage.from_text(f"local://{tmp_path}/bucket")))
    assert found[0] == found[1]


def test_drivers_that_start_together_get_one_id(tmp_path, monkeypatch):
    """The second has written its file as the first is about to."""
    link, second = atomic.link_file, []

    def late(temporary, path):
        monkeypatch.setattr(atomic, "link_file", link)
        second.append(read_storage_id(tmp_path))
        link(temporary, path)

    monkeypatch.setattr(atomic, "link_file", late)
    assert read_storage_id(tmp_path) == second[0]
    assert [path.name for path in tmp_path.iterdir()] == ["storage.json"]


def test_id_of_another_layout_is_refused(tmp_path):
    (tmp_path / "storage.json").write_text(json.dumps({"id": "ab", "layout": LAYOUT + 1}))
    with pytest.raises(OtherVersion):
        read_storage_id(tmp_path)


def test_id_with_a_flipped_bit_is_damaged(tmp_path):
    first = read_storage_id(tmp_path)
    text = (tmp_path / "storage.json").read_text()
    (tmp_path / "storage.json").write_text(text.replace(first[0], chr(ord(first[0]) ^ 1), 1))
    with pytest.raises(ConfigError, match=r"storage.json is damaged; delete it"):
        read_storage_id(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id"', "[" * 100_000, '{"id": 1}\n'])
def test_damaged_id_is_one_line(tmp_path, text):
    (tmp_path / "storage.json").write_text(text)
    with pytest.raises(ConfigError, match="storage.json is damaged; delete it"):
        read_storage_id(tmp_path)
