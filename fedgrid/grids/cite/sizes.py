"""The sizes of data sets and models, where images and models are here to be measured."""

from pathlib import Path

from fedgrid.engine.federation.data.inputs import Inputs
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.data.datasets import find, is_here

Sizes = tuple[int, Inputs, int]
"""Images of a pool, what one is, and the number of classes."""


def sizes_of(dataset: str, data_dir: Path) -> Sizes | None:
    """Return the sizes of a data set; None if they depend on images that are not here."""
    if dataset in DATASETS and DATASETS[dataset].facts is not None and not is_here(dataset, data_dir):
        return None
    try:
        facts = find(dataset, data_dir)
    except DataError:
        return None
    return facts.pool_size, facts.inputs, facts.num_classes


def num_parameters(model: str, sizes: Sizes | None) -> int | None:
    """Return the number of parameters of a model of such images; None if either is not here."""
    # Imports torch, which takes a second.
    from fedgrid.engine.federation.models.flat_vectors import layout

    if model not in MODELS or sizes is None:
        return None
    _, inputs, num_classes = sizes
    return layout(model, inputs, num_classes).num_parameters
