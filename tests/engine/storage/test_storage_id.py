"""A storage has one id, on every machine, for as long as its files are there."""

import pytest

from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.storage_id import claim, id_of


def test_id_stays_when_the_storage_is_moved(tmp_path):
    first = id_of(tmp_path / "runs")
    (tmp_path / "runs").rename(tmp_path / "moved")
    assert id_of(tmp_path / "moved") == first
    assert id_of(tmp_path / "other") != first


def test_every_machine_sees_the_id_of_a_uri(tmp_path, monkeypatch):
    found = []
    for machine in ("a", "b"):
        monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / machine))
        found.append(claim(Storage.of(f"local://{tmp_path}/bucket")))
    assert found[0] == found[1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id"', "[" * 100_000])
def test_damaged_id_is_one_line(tmp_path, text):
    (tmp_path / "storage.json").write_text(text)
    with pytest.raises(ConfigError, match="storage.json is damaged; delete it"):
        id_of(tmp_path)
