"""Data sets of plugins: what is known of them follows from what they read, which is checked."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.data.own import OwnDataset
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import ConfigError, FedgridError
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset, is_here, load_dataset
from fedgrid.engine.runtime.plugins import active
from tests.helpers.plugin_files import DATASET

LABELS = np.array([0, 1, 2, 1], np.int32)
ROWS = np.arange(12.0).reshape(4, 3)


@pytest.fixture
def add(monkeypatch):
    def dataset(read, **values):
        entry = OwnDataset("own", title="own", source="ours", read=read, **values).entry()
        monkeypatch.setitem(DATASETS, "own", entry)

    return dataset


def test_sizes_model_and_training_follow_from_what_is_read(add, tmp_path):
    folders = []

    def read(folder):
        folders.append(folder)
        return ImageSet(ROWS, LABELS, LABELS), ImageSet(ROWS[:3], LABELS[:3])

    add(read)
    dataset = find_dataset("own", tmp_path)
    assert (dataset.inputs, dataset.num_classes, dataset.pool_size) == (Inputs("numbers", (3,)), 3, 4)
    assert (dataset.model, dataset.training.normalise, dataset.num_groups) == ("mlp", "dataset", 3)
    pool, test = load_dataset("own", tmp_path)
    assert (pool.images.dtype, pool.labels.dtype, len(test)) == (np.float32, np.int64, 3)
    assert pool.group_names == ("0", "1", "2")
    assert folders == [tmp_path]


def test_vocabulary_of_tokens_is_that_of_both_parts(add, tmp_path):
    tokens = np.array([[0, 1], [2, 3], [0, 0]])
    add(lambda folder: (ImageSet(tokens, LABELS[:3]), ImageSet(tokens + 4, LABELS[:3])))
    assert find_dataset("own", tmp_path).inputs == Inputs("tokens", (2,), 8)


def test_missing_file_is_named_and_nothing_is_read(add, tmp_path):
    add(lambda folder: 1 / 0, files=("rows.csv",))
    assert not is_here("own", tmp_path)
    with pytest.raises(FedgridError, match="rows.csv is missing; put it there"):
        complete_config({"dataset": "own"}, tmp_path)


POOL = ImageSet(ROWS, LABELS)


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (3, ("TypeError",)),
        ((POOL, ROWS), ("ndarray", "two ImageSets")),
        ((replace(POOL, images=LABELS), POOL), ("int32", "(4,)", "uint8", "float32", "int64")),
        ((replace(POOL, labels=LABELS / 1), POOL), ("labels", "float64", "whole numbers")),
        ((replace(POOL, labels=LABELS[:3]), POOL), ("labels", "(3,)", "(4,)")),
        ((replace(POOL, images=ROWS + np.inf), POOL), ("row 0", "missing or infinite")),
        ((POOL, ImageSet(ROWS[:, :2], LABELS)), ("2 numbers a row", "3 numbers a row")),
        ((POOL, replace(POOL, labels=LABELS + 1)), ("class 3", "training")),
        ((replace(POOL, images=ROWS * 1e300), POOL), ("row 0", "column 1", "too large", "3.4e38")),
        ((replace(POOL, labels=LABELS + 1),) * 2, ("from 1 to 3", "from 0, labels - 1")),
        ((replace(POOL, subjects=LABELS[:2]), POOL), ("subjects", "int32", "(2,)", "whole numbers")),
    ],
)
def test_what_is_no_data_set_is_refused_by_name(add, tmp_path, returned, named):
    add(lambda folder: returned)
    with pytest.raises(FedgridError) as caught:
        load_dataset("own", tmp_path)
    assert [part for part in ("own", *named) if part not in str(caught.value)] == []


def test_draws_from_any_generator_are_seeded(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(DATASET.replace("np.random.default_rng(0).integers", "np.random.randint"))
    read = []
    for seed in range(2):
        np.random.seed(seed)  # noqa: NPY002
        active.use_plugins()
        active.use_plugins([path])
        read.append(load_dataset("own-data", tmp_path)[0].images.tobytes())
    active.use_plugins()
    assert read[0] == read[1]


def test_errors_of_a_plugin_have_its_line(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(DATASET.replace("    labels =", "    folder.nothing\n    labels ="))
    active.use_plugins([path])
    try:
        with pytest.raises(FedgridError) as caught:
            complete_config({"dataset": "own-data", "split": "iid"}, tmp_path)
    finally:
        active.use_plugins()
    assert all(part in str(caught.value) for part in ("mine.py", "line 6", "AttributeError"))
    with pytest.raises(ConfigError, match="unknown dataset 'own-data'; one of your own: --plugin"):
        complete_config({"dataset": "own-data"}, tmp_path)


def test_subjects_are_numbers_of_all_examples(add, tmp_path):
    add(lambda folder: (ImageSet(ROWS, LABELS, subjects=LABELS), ImageSet(ROWS, LABELS)))
    assert load_dataset("own", tmp_path)[0].subjects.tolist() == LABELS.tolist()
