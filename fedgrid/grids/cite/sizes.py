"""The sizes of data sets and models, where images and models are here to be measured."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.data.datasets import find, is_here

if TYPE_CHECKING:
    from fedgrid.engine.federation.models.networks import Build

Sizes = tuple[int, tuple[int, int, int], int]
"""Images of a pool, the shape of one, and the number of classes."""


def sizes_of(dataset: str, data_dir: Path) -> Sizes | None:
    """Return the sizes of a data set; None if they depend on images that are not here."""
    if dataset in DATASETS and DATASETS[dataset].facts is not None and not is_here(dataset, data_dir):
        return None
    try:
        facts = find(dataset, data_dir)
    except DataError:
        return None
    return facts.pool_size, facts.shape, facts.num_classes


def num_parameters(model: str, sizes: Sizes | None) -> int | None:
    """Return the number of parameters of a model of such images; None if either is not here."""
    if model not in MODELS or sizes is None:
        return None
    return _num_parameters(MODELS[model].build, *sizes[1:])


@cache
def _num_parameters(build: "Build", shape: tuple[int, int, int], num_classes: int) -> int:
    """Two versions of a plugin's model differ in `build`."""
    # torch takes a second to import.
    import torch

    with torch.device("meta"):
        return sum(weights.numel() for weights in build(*shape, num_classes).parameters())
