"""MedMNIST's sets: the table of facts is that of its package."""

import numpy as np

from fedgrid.engine.federation.data.published import facts
from fedgrid.engine.federation.data.registry import DATASETS


def test_entries_are_all_sets_of_classes_with_the_facts_of_the_package():
    from medmnist import INFO

    of_classes = {name for name, info in INFO.items() if info["task"] in ("multi-class", "binary-class")}
    names = [name for name in INFO if name in of_classes and not name.endswith("3d")]
    assert {row[0].lower() for row in facts.MEDMNIST} == set(names) == set(INFO) - set(facts.REFUSED)
    for name in names:
        info, parts = INFO[name], INFO[name]["n_samples"]
        for side in facts.SIDES:
            entry = DATASETS[name if side == 28 else f"{name}-{side}"]
            assert entry.title.split()[0] == info["python_class"]
            assert (entry.num_classes, entry.inputs.shape) == (
                len(info["label"]),
                (info["n_channels"], side, side),
            )
            assert (entry.pool_size, entry.test_size) == (parts["train"] + parts["val"], parts["test"])
            assert f" {info['license']};" in entry.source
            assert info["license"] == entry.licence
            assert f"/{entry.location}?" in info["url" if side == 28 else f"url_{side}"]


def test_file_of_the_package_is_read(tmp_path):
    """Two images of 64 pixels a part in place of hundreds; labels of shape (N, 1)."""
    entry, arrays = DATASETS["breastmnist-64"], {}
    for part in ("train", "val", "test"):
        arrays[f"{part}_images"] = np.zeros((2, 64, 64), np.uint8)
        arrays[f"{part}_labels"] = np.array([[0], [1]], np.uint8)
    np.savez_compressed(tmp_path / "breastmnist_64.npz", **arrays)
    pool, test = entry.read(tmp_path / entry.location)
    assert (pool.inputs, len(pool), len(test)) == (entry.inputs, 4, 2)
    assert pool.labels.tolist() == [0, 1, 0, 1]
