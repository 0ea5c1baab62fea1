"""The layers that the models' definitions name."""

import pytest
import torch

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import registry
from fedgrid.engine.federation.models.registry import INPUT, MODELS, ModelEntry
from fedgrid.grids.explain.compute.saliency import find_feature_layer
from fedgrid.grids.explain.compute.settings import find_named_layer

SHAPE = (3, 32, 32)


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if "pixels" in entry.takes])
def test_model_names_its_last_feature_map_or_the_input_if_it_has_none(name):
    # Shapes only, no numbers.
    with torch.device("meta"):
        found = find_feature_layer(
            registry.build_model(name, image_inputs(*SHAPE), 10).eval(), torch.zeros(SHAPE)
        )
    assert MODELS[name].saliency_layer == (found or INPUT)
    assert find_named_layer(name, image_inputs(*SHAPE)) == (
        None if found is None else MODELS[name].saliency_layer
    )


@pytest.mark.parametrize(
    ("like", "advice"), [("tinyvgg", "saliency_layer='9'"), ("digitnet", "saliency_layer='input'")]
)
def test_model_that_names_no_layer_is_refused_with_what_to_give(monkeypatch, like, advice):
    entry = ModelEntry("mine", "mine", "ours", MODELS[like].build)
    monkeypatch.setitem(MODELS, "mine", entry)
    with pytest.raises(ConfigError, match=f"model 'mine' does not say .* {advice}"):
        find_named_layer("mine", image_inputs(1, 8, 8))
