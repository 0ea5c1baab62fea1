"""Runs name the user's own images by content: the same id wherever they lie, and no path in it."""

import json
import shutil

import numpy as np
import pytest

from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data import datasets, own_images
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder


def write_images(path, seed=0):
    """Write ten classes of 8x8 images, six of each for training and two for testing."""
    rng = np.random.default_rng(seed)
    counts = {"train": 60, "test": 20}
    arrays = {f"{part}_labels": np.arange(count) % 10 for part, count in counts.items()}
    for part, count in counts.items():
        arrays[f"{part}_images"] = rng.integers(0, 256, (count, 8, 8), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return path


@pytest.fixture
def images(tmp_path):
    return write_images(tmp_path / "here" / "mine.npz")


@pytest.fixture
def nowhere_known(monkeypatch):
    """A process that has looked at no images yet."""
    monkeypatch.setattr(own_images, "_places", {})


def run(dataset, tmp_path, **given):
    return complete_config({"dataset": dataset, "clients": 3, "model": "digitnet", **given}, tmp_path)


class TestName:
    def test_is_short_name_and_content_without_a_path(self, images, tmp_path):
        found = run(f"npz:{images}", tmp_path)
        assert names.is_content_name(found.dataset)
        assert found.dataset.startswith("npz:mine.npz@")
        assert str(tmp_path) not in found.canonical_json()
        assert found.scenario.startswith("npz_mine-3-")

    def test_is_the_same_wherever_the_images_lie(self, images, tmp_path):
        copy = tmp_path / "there" / "mine.npz"
        copy.parent.mkdir()
        shutil.copy(images, copy)
        assert run(f"npz:{copy}", tmp_path).run_id == run(f"npz:{images}", tmp_path).run_id

    def test_is_another_for_other_images_of_the_same_path(self, images, tmp_path):
        before = run(f"npz:{images}", tmp_path)
        write_images(images, seed=1)
        after = run(f"npz:{images}", tmp_path)
        assert before.run_id != after.run_id
        assert before.root_seed == after.root_seed, "seeds are drawn from the short name"

    def test_of_a_folder_is_of_the_files_that_are_images(self, tmp_path):
        """Of their names and their bytes."""
        folder = tmp_path / "own"
        folder.mkdir()
        (folder / "a.png").write_bytes(b"one")
        first = own_images.digest_files(folder, [folder / "a.png"])
        (folder / "a.png").write_bytes(b"two")
        second = own_images.digest_files(folder, [folder / "a.png"])
        (folder / "a.png").rename(folder / "b.png")
        third = own_images.digest_files(folder, [folder / "b.png"])
        assert len({first, second, third}) == 3

    def test_stands_for_the_public_set_of_an_encoder_too(self, images, tmp_path):
        public = write_images(tmp_path / "public.npz", seed=2)
        encoder = {"name": "dense", "public": f"npz:{public}", "epochs": 1}
        found = run(f"npz:{images}", tmp_path, algorithm={"name": "embeddings", "encoder": encoder})
        assert len(found.own_images) == 2
        assert str(tmp_path) not in found.canonical_json()
        again = complete_config(json.loads(found.canonical_json()) | {"seed": 1}, tmp_path)
        assert again.own_images == found.own_images


class TestPlace:
    def test_of_a_name_that_nobody_has_given_is_refused_with_the_next_step(self, tmp_path, nowhere_known):
        with pytest.raises(DataError, match="location of .* is not known here; .* --dataset npz:PATH"):
            datasets.find_dataset("npz:mine.npz@0123456789ab", tmp_path)

    def test_stands_beside_the_configuration_of_a_run(self, images, tmp_path, nowhere_known):
        found = run(f"npz:{images}", tmp_path)
        folder = RunFolder(Storage(tmp_path / "runs"), found)
        folder.open()
        assert str(images) not in (folder.path / "config.json").read_text()
        own_images._places.clear()
        own_images.load_places(folder.path)
        assert datasets.find_dataset(found.dataset, tmp_path).location == str(images)

    def test_stands_beside_the_runs_of_a_grid(self, images, tmp_path, nowhere_known):
        found = run(f"npz:{images}", tmp_path)
        grid = GridFolder(Storage(tmp_path / "runs"), "mine")
        grid.keep([found], "")
        assert str(images) not in (grid.path / "runs.jsonl").read_text()
        own_images._places.clear()
        assert grid.read_runs() == (found,)
        assert datasets.find_dataset(found.dataset, tmp_path).location == str(images)

    def test_that_was_given_last_counts(self, images, tmp_path, nowhere_known):
        found = run(f"npz:{images}", tmp_path)
        moved = images.rename(tmp_path / "mine.npz")
        run(f"npz:{moved}", tmp_path)
        own_images.register_places({found.dataset: str(images)})
        assert datasets.find_dataset(found.dataset, tmp_path).location == str(moved)

    def test_runs_on_known_data_sets_have_none(self, tmp_path):
        folder = RunFolder(Storage(tmp_path / "runs"), complete_config({"clients": 3}, tmp_path))
        folder.open()
        assert not (folder.path / own_images.PLACES).exists()


def test_images_without_content_are_told():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 1, 4, 4), np.uint8)
    assert own_images.describe_odd_images("mine", images) == []
    same = images.copy()
    same[:46] = 0
    [note] = own_images.describe_odd_images("mine", same)
    assert note.startswith("92% of the images of mine are the same image")
    [note] = own_images.describe_odd_images("mine", images % 2)
    assert note == "the brightest pixel of mine is 1, and white is 255: save the images as 0 to 255"
    black = own_images.describe_odd_images("mine", np.zeros((600, 3, 2, 2), np.uint8))
    assert [line.partition(" ")[0] for line in black] == ["100%", "the"]
