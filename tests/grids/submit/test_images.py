"""The user's own images that travel with a job."""

import os

import numpy as np
import pytest
from datasets import Dataset
from PIL import Image

from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.data import hub, own_images
from fedgrid.engine.runtime.data.datasets import find, is_here, load
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.submit import images
from fedgrid.grids.submit.grid_files import stage
from fedgrid.grids.submit.images import Shipment, relative_names


def write_npz(path, seed=0):
    """Write six images of two classes to draw from, and four at the server."""
    rng, arrays = np.random.default_rng(seed), {}
    for part, number in (("train", 6), ("test", 4)):
        arrays[f"{part}_images"] = rng.integers(0, 255, (number, 8, 8)).astype(np.uint8)
        arrays[f"{part}_labels"] = np.arange(number) % 2
    np.savez(path, **arrays)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return the folder of the command: `mine.npz`, `mine.csv`, folder `cats`, and `drawn` with a group."""
    folder = tmp_path / "here"
    for part in ("train", "test"):
        for name in ("ape", "bee"):
            (folder / "cats" / part / name).mkdir(parents=True)
            Image.new("L", (8, 8), len(name + part)).save(folder / "cats" / part / name / "1.png")
            (folder / "drawn" / part / "ink" / name).mkdir(parents=True)
            Image.new("L", (8, 8), len(name)).save(folder / "drawn" / part / "ink" / name / "1.png")
    write_npz(folder / "mine.npz")
    Dataset.from_dict({"n": [1.0, 2.0] * 4, "y": [0, 1] * 4}).save_to_disk(folder / "saved")
    (folder / "mine.csv").write_text("a,site,y\n" + "1,r,0\n2,s,1\n" * 4)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Return a job's working directory, which the code of this process seems to lie in."""
    monkeypatch.setattr(own_images, "SHIPPED_FOLDER", tmp_path / "job" / "images")
    return tmp_path / "job"


@pytest.mark.parametrize(
    "name",
    [
        *("npz:mine.npz", "folder:cats", "folder:../here/cats", "folder:cats#4", "folder:drawn"),
        *("csv:mine.csv#label=y,client=site", "csv:mine.csv#client=site,label=y,min_rows=2"),
        "hf:./saved#label=y",
    ],
)
def test_shipped_images_are_the_same(here, job, tmp_path, monkeypatch, name):
    pool, server = load(name, tmp_path)
    shipment = Shipment(job)
    shipment.take_argument(f"--dataset=digits,{name}")
    there = shipment.rewrite(name)
    monkeypatch.chdir(tmp_path)
    found_pool, found_server = load(there, tmp_path)
    assert np.array_equal(found_pool.images, pool.images)
    assert np.array_equal(found_server.images, server.images)
    assert is_here(there, tmp_path)


def test_run_has_one_id_in_every_job_until_the_images_change(here, tmp_path, monkeypatch):
    ids = []
    for job, seed in (("first", 0), ("second", 0), ("third", 1)):
        write_npz(here / "mine.npz", seed)
        monkeypatch.setattr(own_images, "SHIPPED_FOLDER", tmp_path / job / "images")
        shipment = Shipment(tmp_path / job)
        shipment.take("npz:mine.npz")
        run = complete({"dataset": shipment.rewrite("npz:mine.npz"), "split": "majority"}, tmp_path)
        assert run.short_dataset == "npz_mine"
        ids.append(run.run_id)
    assert ids[0] == ids[1] != ids[2]


def test_grid_of_shipped_images_reads_there_as_here(here, job, tmp_path, monkeypatch):
    (here / "base.yaml").write_text("dataset: ['npz:mine.npz', folder:cats]  # npz:mine.npz\n")
    (here / "grid.yaml").write_text(
        "base: base.yaml\nsplit: majority\n"
        "overrides:\n  - when: {dataset: npz:mine.npz}\n    then: {model: digitnet}\n"
    )
    name = stage("grid.yaml", job, Shipment(job))
    monkeypatch.chdir(job)
    runs = load_grid(name, {}, [], tmp_path).runs
    assert [(run.short_dataset, run.model) for run in runs] == [
        ("npz_mine", "digitnet"),
        ("folder_cats", "tinyvgg"),
    ]
    assert all("@" in run.dataset for run in runs)


def test_file_of_a_split_is_shipped_from_a_grid_and_an_option(here, job, tmp_path, monkeypatch):
    (here / "who.csv").write_text("client\n0\n1\n\n0\n1\n1\n")
    (here / "grid.yaml").write_text(
        "dataset: npz:mine.npz\nsplit: {kind: file, path: who.csv}\nmodel: digitnet\n"
    )
    shipment = Shipment(job)
    [run] = load_grid("grid.yaml", {}, [], tmp_path).runs
    shipment.take("who.csv")
    there = shipment.rewrite("split.path=who.csv")
    name = stage("grid.yaml", job, shipment)
    monkeypatch.chdir(job)
    for changes in ([], [there]):
        assert load_grid(name, {}, changes, tmp_path).runs[0].run_id == run.run_id


@pytest.mark.parametrize(
    "argument",
    ["npz:mine.npz", "digits,npz:mine.npz", "--dataset=npz:mine.npz", "dataset=['npz:mine.npz']"],
)
def test_name_is_changed_wherever_an_option_has_it(here, job, argument):
    shipment = Shipment(job)
    shipment.take_argument(argument)
    [place] = (job / "images").iterdir()
    assert shipment.rewrite(argument) == argument.replace("npz:", f"npz:@{place.name}/")
    assert shipment.rewrite("npz:mine.npz2") == "npz:mine.npz2"


def test_data_on_the_hub_are_fetched_there_at_todays_commit(here, job, tmp_path, monkeypatch, capsys):
    commit = "0" * 40
    monkeypatch.setattr(hub, "commit_of", lambda repository, revision: commit)
    (here / "grid.yaml").write_text(
        "dataset: [hf:some/letters#label=y, 'hf:words@main#tokens=chars,length=9']\n"
    )
    shipment = Shipment(job)
    name = stage("grid.yaml", job, shipment)
    assert (job / name).read_text() == (
        f"dataset: [hf:some/letters@{commit}#label=y, 'hf:words@{commit}#length=9,tokens=chars']\n"
    )
    assert f"machines fetch hf:some/letters@{commit}#label=y, or have it" in capsys.readouterr().err.replace(
        "\n", " "
    )
    assert not (job / "images").exists()


def test_absolute_paths_are_the_clusters(here, job):
    value = {"dataset": ["npz:/data/mine.npz", "folder:~/images", "npz:@ab/mine.npz", "mnist"]}
    assert list(relative_names(value)) == []
    shipment = Shipment(job)
    shipment.take(value)
    assert not job.exists()


def test_hidden_files_stay_here(here, job):
    (here / "cats" / ".git").mkdir()
    (here / "cats" / "train" / "ape" / ".DS_Store").touch()
    (here / "cats" / "notes.txt").touch()
    Shipment(job).take("folder:cats")
    assert sorted({path.suffix for path in job.rglob("*") if path.is_file()}) == [".png"]


def test_too_many_images_are_refused_with_what_to_do(here, job, monkeypatch):
    monkeypatch.setattr(images, "LIMIT", (here / "mine.npz").stat().st_size + 10)
    shipment = Shipment(job)
    shipment.take("npz:mine.npz")
    with pytest.raises(
        ConfigError, match=r"^folder:cats: .* MiB travel with a job; .* the absolute path there"
    ):
        shipment.take("folder:cats")


def test_images_that_cannot_be_used_are_refused_before_a_job_starts(here, job):
    (here / "wrong.npz").write_text("no images")
    os.mkfifo(here / "cats" / "test" / "bee" / "2.png")
    for name in ("npz:wrong.npz", "npz:gone.npz", "folder:cats"):
        with pytest.raises(DataError):
            Shipment(job).take(name)
    assert not job.exists()


def test_shipped_images_that_are_not_here_are_named_with_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"^npz:@ab12/mine.npz: these data came with a job; .*submit"):
        find("npz:@ab12/mine.npz", tmp_path)
