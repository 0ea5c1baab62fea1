"""Which data sets there are, and how a run gets its images."""

import dataclasses
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.data.datasets import (
    DATASETS,
    default_data_dir,
    find_dataset,
    is_here,
    load_dataset,
)


@pytest.fixture
def folder(tmp_path):
    """An image folder of two classes, one grey 4x4 image in each place."""
    for place in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / "own" / place).mkdir(parents=True)
        Image.new("L", (4, 4), 9).save(tmp_path / "own" / place / "0.png")
    return tmp_path / "own"


class TestRegistry:
    @pytest.mark.parametrize(
        ("name", "optimizer", "rate", "batch", "decay", "rounds", "model", "pool"),
        [
            ("digits", "sgd", 0.1, 32, 0, 15, "digitnet", 1442),
            ("mnist", "sgd", 1e-2, 32, 0, 50, "tinyvgg", 60000),
            ("fmnist", "sgd", 1e-2, 32, 0, 50, "tinyvgg", 60000),
            ("cifar10", "sgd", 1e-2, 64, 0, 80, "resnet34", 50000),
            ("pathmnist", "adam", 1e-3, 128, 0, 75, "resnet34", 100000),
            ("bloodmnist", "adam", 1e-3, 128, 0, 75, "resnet34", 13671),
        ],
    )
    def test_default_training_trains(self, name, optimizer, rate, batch, decay, rounds, model, pool):
        """The OCFL papers' settings (Table 4); of MedMNIST the optimizer and rate of its benchmark."""
        dataset, training = DATASETS[name], DATASETS[name].training
        assert (training.optimizer, training.learning_rate, training.batch_size) == (optimizer, rate, batch)
        assert (training.weight_decay, training.rounds, training.local_epochs) == (decay, rounds, 3)
        assert (dataset.model, dataset.pool_size) == (model, pool)

    def test_data_sets_of_other_papers_have_their_model_and_training(self):
        """BASELINES sections 4.3, 7.3 and 11."""
        of = {
            name: (
                *(
                    dataset.num_classes,
                    dataset.inputs.shape,
                    dataset.model,
                    training.rounds,
                    training.local_epochs,
                ),
                *(training.batch_size, training.optimizer, training.learning_rate, training.momentum),
            )
            for name in ("cifar100", "svhn", "femnist")
            for dataset, training in [(DATASETS[name], DATASETS[name].training)]
        }
        assert of == {
            "cifar100": (100, (3, 32, 32), "resnet9", 150, 10, 10, "sgd", 0.01, 0.5),
            "svhn": (10, (3, 32, 32), "lenet5", 200, 10, 10, "sgd", 0.01, 0.5),
            "femnist": (62, (1, 28, 28), "lenet5-tanh", 500, 3, 32, "adam", 0.001, 0.0),
        }
        assert (DATASETS["cifar100"].pool_size, DATASETS["svhn"].pool_size) == (50_000, 73_257)


class TestFind:
    def test_unknown_name_suggests_the_nearest(self, tmp_path):
        with pytest.raises(ConfigError, match="unknown dataset 'mnst'; did you mean 'mnist'.*npz:PATH"):
            find_dataset("mnst", tmp_path)

    @pytest.mark.parametrize(
        ("name", "reason"),
        [("chestmnist", "14 labels"), ("retinamnist-64", "ordinal"), ("organmnist3d", "volumes")],
    )
    def test_sets_of_medmnist_without_one_class_an_image_say_why(self, tmp_path, name, reason):
        with pytest.raises(ConfigError, match=f"{name} .*{reason}"):
            find_dataset(name, tmp_path)

    @pytest.mark.parametrize("name", ["folder:", "npz", "zip:/x"])
    def test_format_without_path_and_unknown_format_are_refused(self, tmp_path, name):
        with pytest.raises(ConfigError, match=f"unknown dataset '{name}'"):
            find_dataset(name, tmp_path)

    def test_image_folder_is_named_by_its_content(self, folder, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        dataset = find_dataset("folder:own", Path("elsewhere"))
        assert names.is_content_name(dataset.name)
        assert find_dataset(dataset.name, Path("elsewhere")) == dataset
        assert dataset.location == str(folder)
        assert (dataset.title, dataset.num_classes, dataset.inputs.shape, dataset.pool_size) == (
            "own",
            2,
            (1, 4, 4),
            2,
        )
        assert (dataset.model, dataset.training) == ("tinyvgg", DATASETS["mnist"].training)


class TestLoad:
    def test_missing_file_is_named_when_downloads_are_off(self, tmp_path):
        with pytest.raises(DataError, match=r"MNIST/raw/train-images-idx3-ubyte is missing; put it .* 12 MB"):
            load_dataset("mnist", tmp_path, download=False)
        assert list(tmp_path.iterdir()) == []

    def test_missing_files_are_downloaded_once(self, tmp_path, monkeypatch):
        """A stand-in for MNIST of ten images."""

        def fetch(folder):
            calls.append(folder)
            (folder / "MNIST" / "raw").mkdir(parents=True)
            for name in ("train", "t10k"):
                images = struct.pack(">4B3i", 0, 0, 8, 3, 10, 28, 28) + bytes(10 * 28 * 28)
                (folder / "MNIST" / "raw" / f"{name}-images-idx3-ubyte").write_bytes(images)
                labels = struct.pack(">4Bi", 0, 0, 8, 1, 10) + bytes(range(10))
                (folder / "MNIST" / "raw" / f"{name}-labels-idx1-ubyte").write_bytes(labels)

        calls: list[Path] = []
        small = dataclasses.replace(DATASETS["mnist"], pool_size=10, fetch=fetch)
        monkeypatch.setitem(DATASETS, "mnist", small)
        assert not is_here("mnist", tmp_path)
        for _ in range(2):
            pool, _ = load_dataset("mnist", tmp_path)
            assert pool.labels.tolist() == list(range(10))
        assert len(calls) == 1
        assert is_here("mnist", tmp_path)

    @pytest.mark.parametrize(
        ("labels", "shape", "message"),
        [
            (range(9), (1, 8, 8), "has 9 images to draw from instead of 10; replace its files"),
            (range(10), (3, 8, 8), "data are images of 3x8x8 pixels where images of 1x8x8"),
            ([*range(9), 10], (1, 8, 8), "label 10 of a training image is not a class; allowed: 0 to 9"),
            ([*range(9), 8], (1, 8, 8), "class 9 has no training images"),
        ],
    )
    def test_unexpected_images_are_refused(self, tmp_path, monkeypatch, labels, shape, message):
        images = ImageSet(np.zeros((len(list(labels)), *shape), np.uint8), np.array(labels))
        odd = dataclasses.replace(DATASETS["digits"], pool_size=10, read=lambda path: (images, images))
        monkeypatch.setitem(DATASETS, "digits", odd)
        with pytest.raises(DataError, match=message):
            load_dataset("digits", tmp_path)

    def test_images_that_do_not_fit_are_not_downloaded(self, tmp_path, monkeypatch):
        """100,000 images of 3 x 224 x 224 twice, and 7,180: 31.2 GB, on a machine of 8 GiB."""
        monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 2**21, "SC_PAGE_SIZE": 2**12}.__getitem__)
        with pytest.raises(DataError, match=r"pathmnist-224: .* 31\.2 GB, .* 8\.6 GB"):
            load_dataset("pathmnist-224", tmp_path)


class TestDataFolder:
    def test_data_folder_is_fedgrid_data_if_set(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FEDGRID_DATA", str(tmp_path))
        assert default_data_dir() == tmp_path

    def test_data_folder_defaults_to_the_users_cache(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FEDGRID_DATA", "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert default_data_dir() == tmp_path / "fedgrid" / "data"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert default_data_dir() == tmp_path / ".cache" / "fedgrid" / "data"

    def test_is_here_checks_that_files_exist(self, folder, tmp_path):
        assert is_here("digits", tmp_path)
        assert not is_here("pathmnist", tmp_path)
        assert is_here(f"folder:{folder}", tmp_path)
        assert not is_here("npz:nowhere.npz", tmp_path)
