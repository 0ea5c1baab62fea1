"""Write the digits of the first classes alone into a file that `npz:PATH` reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_with_digest


def select_classes(given: Mapping[str, Any], folder: Path, data_dir: Path) -> dict[str, Any]:
    """Replace `classes` in the settings of a run by a data set that has the first classes alone.

    The data set is digits by default; the model and the training are those of digits.
    """
    settings = {"dataset": "digits", "algorithm": "fedavg", **given}
    count = settings.pop("classes", None)
    if count is None:
        return settings
    path = folder / f"digits-of-{count}-classes.npz"
    if not path.exists():
        _write_images(path, count, data_dir)
    usual = complete_config({"dataset": "digits", "clients": 2, "algorithm": "fedavg"}, data_dir)
    training = {**usual.training.model_dump(mode="json"), **settings.get("training", {})}
    return {**settings, "dataset": f"npz:{path}", "model": usual.model, "training": training}


def _write_images(path: Path, count: int, data_dir: Path) -> None:
    """Write the images of the first classes, and rename the file when it is whole."""
    pair, _ = load_with_digest("digits", data_dir)
    arrays: dict[str, Any] = {}
    for name, held in zip(("train", "test"), pair, strict=True):
        chosen = held.labels < count
        arrays |= {f"{name}_images": held.images[chosen][:, 0], f"{name}_labels": held.labels[chosen]}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.rename(path)
