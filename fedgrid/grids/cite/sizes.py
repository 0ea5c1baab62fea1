"""The sizes of data sets and models, where images and models are here to be measured."""

from pathlib import Path

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.data.datasets import find, is_here

Sizes = tuple[int, int]
"""Images of a pool, and the number of classes."""


def sizes_of(dataset: str, data_dir: Path) -> Sizes | None:
    """Return the sizes of a data set; None if they depend on images, or a plugin, that are not here."""
    try:
        if dataset in DATASETS and DATASETS[dataset].facts is not None and not is_here(dataset, data_dir):
            return None
        facts = find(dataset, data_dir)
    except FedgridError:
        return None
    return facts.pool_size, facts.num_classes


def num_parameters(model: str, dataset: str, data_dir: Path) -> int | None:
    """Return the number of parameters of a model of a data set; None if either is not here."""
    # Imports torch, which takes a second.
    from fedgrid.engine.federation.models.flat_vectors import layout

    if model not in MODELS or sizes_of(dataset, data_dir) is None:
        return None
    facts = find(dataset, data_dir)
    return layout(model, facts.inputs, facts.num_classes).num_parameters
