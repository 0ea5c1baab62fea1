"""The size of a run's model as it is sent."""

from functools import lru_cache

from fedgrid.algorithms.contract.orders import BYTES_PER_ENTRY
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.data.datasets import default_data_dir, find
from fedgrid.engine.runtime.plugins import active


def model_bytes(config: RunConfig) -> int:
    """Return the bytes of a run's model: four for each parameter and entry of a buffer.

    Raises:
        ConfigError: if the model is of a plugin that this process does not know.
        DataError: if images of a `folder:` or `npz:` data set cannot be read.
    """
    active.activate(config.plugin_digests)
    dataset = find(config.dataset, default_data_dir())
    return _bytes(config.model, dataset.shape, dataset.num_classes, config.plugin_digests)


@lru_cache
def _bytes(model: str, shape: tuple[int, int, int], num_classes: int, plugin_digests: tuple[str, ...]) -> int:
    """Build the model without memory for its weights; another version of a plugin has another digest."""
    import torch

    from fedgrid.engine.federation.models.flat_vectors import layout_of
    from fedgrid.engine.federation.models.registry import build

    with torch.device("meta"):
        layout = layout_of(build(model, shape, num_classes))
    return BYTES_PER_ENTRY * layout.size
