"""Which layer of a model Grad-CAM explains, as the model's definition names it."""

from fedgrid.engine.federation.errors import ConfigError, unknown
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.registry import INPUT, MODELS


def named_layer(model: str, inputs: Inputs) -> str | None:
    """Return the name of the layer that is explained; None if the pixels are, by input gradients.

    Args:
        model: a key of `MODELS`.
        inputs: images.

    Raises:
        ConfigError: there is no such model, or its definition does not say.
    """
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    named = MODELS[model].saliency_layer
    if named is None:
        advice = _advice(model, inputs)
        raise ConfigError(
            f"model '{model}' does not say which layer is explained: give its ModelEntry {advice}"
        )
    return None if named == INPUT else named


def _advice(model: str, inputs: Inputs) -> str:
    # Importing torch takes seconds.
    import torch

    from fedgrid.engine.federation.models.flat_vectors import blank
    from fedgrid.grids.explain.compute.saliency import feature_layer

    layer = feature_layer(blank(model, inputs, 2).eval(), torch.zeros(inputs.shape))
    if layer is None:
        return f"saliency_layer='{INPUT}' (input gradients: it has no feature map)"
    return f"saliency_layer='{layer}' (its last feature map)"
