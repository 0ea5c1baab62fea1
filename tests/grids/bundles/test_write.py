"""What is in a bundle, and what is not."""

import json
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest
from rocrate.rocrate import ROCrate

from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.bundles import RUNS, USER, make_bundle
from tests.helpers.command_line import fedgrid


def test_no_byte_names_a_person_or_a_place(home: Path, bundle: Path) -> None:
    """Also not what is packed within Parquet files: their metadata, and the texts of their columns."""
    with ZipFile(bundle) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        for name in [name for name in contents if name.endswith(".parquet")]:
            with archive.open(name) as file:
                table = pq.read_table(file)
            contents[f"{name}, in it"] = f"{table.schema.metadata} {table.to_pydict()}".encode()
    for private in (USER, str(home), str(home.parent), "own.py/", "file://", "http://127"):
        named = [name for name, data in contents.items() if private.encode() in data]
        assert named == [], private
    names = {name.rpartition("/")[2] for name in contents}
    assert names.isdisjoint({"log.txt", "mlflow.json", "images.json", "storage.json", "tags.json"})


def test_same_grid_gives_the_same_bytes(home: Path, bundle: Path) -> None:
    assert make_bundle(home / "runs", home / "again.zip").read_bytes() == bundle.read_bytes()


def test_crate_says_what_was_run_on_which_data(bundle: Path, tmp_path: Path) -> None:
    with ZipFile(bundle) as archive:
        archive.extractall(tmp_path)
    crate = ROCrate(tmp_path)
    [action] = crate.get_by_type("CreateAction")
    assert action["instrument"]["name"] == "fedgrid"
    data = {each["name"]: each for each in action["object"]}
    made_with = json.loads(next(tmp_path.glob("storage/digits*/manifest.json")).read_text())
    assert data["digits"]["identifier"] == made_with["made_with"][0]["images"]
    [own] = [name for name in data if name.startswith("csv:sites.csv")]
    assert data[own]["identifier"] != ""
    assert {each["@id"] for each in action["result"]} <= {each.id for each in crate.data_entities}
    assert "- digits: not stated" in crate.root_dataset["license"]["description"]
    listed = unseal_file(tmp_path / "bundle.json")["files"]
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {*listed, "bundle.json"}
    assert "torch==" in (tmp_path / "environment.txt").read_text()
    assert (tmp_path / "report" / "index.html").stat().st_size > 1000


@pytest.mark.parametrize("target", ["folder.zip", "file/mine.zip", "file/below/mine.zip"])
def test_file_that_cannot_be_written_is_refused_before_the_work(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.zip").mkdir()
    Path("file").touch()
    monkeypatch.setattr(Storage, "pull_marks", None)
    result = fedgrid("bundle", "make", "mine", "-o", target, "--storage", home / "runs")
    assert (result.code, "--output" in result.err, target in result.err) == (2, True, True)


def test_models_go_in_only_if_asked_for_and_filters_choose_runs(home: Path, bundle: Path) -> None:
    refused = fedgrid("bundle", "make", "mine", "-o", home / "some", "--storage", home / "runs")
    assert (refused.code, ".zip" in refused.err) == (2, True)
    some = make_bundle(home / "runs", home / "some.zip", "--models", "--where", "algorithm=fedavg,seed=0")
    with ZipFile(bundle) as archive, ZipFile(some) as of_some:
        assert not any("state-" in name for name in archive.namelist())
        assert sum(name.endswith("/manifest.json") for name in archive.namelist()) == RUNS
        assert sum(name.endswith("/manifest.json") for name in of_some.namelist()) == 2
        assert sum(name.endswith("000002.safetensors") for name in of_some.namelist()) == 2
        assert not any(name.endswith(".py") for name in of_some.namelist())
