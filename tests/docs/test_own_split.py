"""The examples that make a file of a split out of what Flower and PFLlib give."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.prepare import find_partition
from tests.helpers.partitions import list_held

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LABELS = np.tile([0, 1], 6)
PIXELS = np.arange(12 * 64, dtype=np.uint8).reshape(12, 8, 8)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class HuggingFace(dict):
    """What of a data set of theirs is used: a column by its name, the number of rows, a column more."""

    def __len__(self):
        return len(self["label"])

    def add_column(self, name, values):
        return HuggingFace({**self, name: values})


def deal(name, folder):
    """Return training and test positions of each client of digits in two files."""
    given = {"dataset": f"npz:{name}.npz", "model": "digitnet"}
    config = complete_config({**given, "split": {"kind": "file", "path": f"{name}.csv"}}, folder)
    return [
        (part.train.tolist(), part.test.tolist()) for part in list_held(find_partition(config, folder, 0))
    ]


def test_flowers_partitions_are_the_clients(tmp_path):
    class Partitioner(SimpleNamespace):
        def load_partition(self, client):
            rows = slice(client, None, self.num_partitions)
            return HuggingFace({name: column[rows] for name, column in self.dataset.items()})

    whole = HuggingFace(image=list(PIXELS), label=LABELS.tolist())
    export = runpy.run_path(str(EXAMPLES / "from_flower.py"))["export"]
    export(Partitioner(num_partitions=3), whole, whole)
    held = [sorted(train + test) for train, test in deal("flower", tmp_path)]
    assert held == [[client, client + 3, client + 6, client + 9] for client in range(3)]


def test_pfllibs_clients_keep_their_images_and_tests(tmp_path):
    """Client 0 trains on 4 images and is tested on 2, client 1 likewise: positions are in that order."""
    scaled = (PIXELS[:, None] / 255 - 0.5) / 0.5
    for part, rows in (("train", ([0, 1, 2, 3], [6, 7, 8, 9])), ("test", ([4, 5], [10, 11]))):
        folder = tmp_path / "dataset" / "MNIST" / part
        folder.mkdir(parents=True)
        for client, own in enumerate(rows):
            np.savez(folder / f"{client}.npz", data={"x": scaled[own].astype(np.float32), "y": LABELS[own]})
    runpy.run_path(str(EXAMPLES / "from_pfllib.py"))
    assert deal("pfl", tmp_path) == [([0, 1, 2, 3], [4, 5]), ([6, 7, 8, 9], [10, 11])]
    with np.load("pfl.npz") as arrays:
        assert np.array_equal(arrays["train_images"][..., 0], PIXELS)
        assert arrays["test_labels"].tolist() == [0, 1, 0, 1]
