"""The layers that the models' definitions name, and captum as an oracle for their maps."""

import pytest
import torch
from captum.attr import LayerGradCam, Saliency

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models import registry
from fedgrid.engine.federation.models.registry import INPUT, MODELS, ModelEntry
from fedgrid.grids.explain.explanations.layers import named_layer
from fedgrid.grids.explain.explanations.saliency import feature_layer, input_gradients, unrectified_maps

SHAPE = (3, 32, 32)


@pytest.mark.parametrize("name", MODELS)
def test_model_names_its_last_feature_map_or_the_input_if_it_has_none(name):
    # Shapes only, no numbers.
    with torch.device("meta"):
        found = feature_layer(registry.build(name, SHAPE, 10).eval(), torch.zeros(SHAPE))
    assert MODELS[name].saliency_layer == (found or INPUT)
    assert named_layer(name, SHAPE) == (None if name == "digitnet" else MODELS[name].saliency_layer)


@pytest.mark.parametrize("name", ["tinyvgg", "lenet5", "resnet9"])
def test_maps_are_those_of_captum(name):
    torch.manual_seed(3)
    module, layer = registry.build(name, SHAPE, 10).eval(), MODELS[name].saliency_layer
    images, classes = torch.rand(2, *SHAPE), torch.tensor([3, 7])
    explainer = LayerGradCam(module, dict(module.named_modules())[layer])
    theirs = explainer.attribute(images, classes).detach()[:, 0]
    ours = unrectified_maps(module, layer, images, classes)
    assert ours == pytest.approx(theirs, abs=1e-6 * float(theirs.abs().max()))


def test_input_gradients_are_captums_saliency_scaled():
    torch.manual_seed(3)
    module = registry.build("digitnet", (1, 8, 8), 10).eval()
    images, classes = torch.rand(2, 1, 8, 8), torch.tensor([3, 7])
    theirs = Saliency(module).attribute(images.clone().requires_grad_(), classes)[:, 0]
    ours = input_gradients(module, images, classes)
    assert ours.largest_N == pytest.approx(theirs.amax(dim=(1, 2)), rel=1e-6)
    low = theirs.amin(dim=(1, 2), keepdim=True)
    scaled = (theirs - low) / (theirs.amax(dim=(1, 2), keepdim=True) - low)
    assert ours.maps_NHW == pytest.approx(scaled, abs=1e-6)


@pytest.mark.parametrize(
    ("like", "advice"), [("tinyvgg", "saliency_layer='9'"), ("digitnet", "saliency_layer='input'")]
)
def test_model_that_names_no_layer_is_refused_with_what_to_give(monkeypatch, like, advice):
    entry = ModelEntry("mine", "mine", "ours", MODELS[like].build)
    monkeypatch.setitem(MODELS, "mine", entry)
    with pytest.raises(ConfigError, match=f"model 'mine' does not say .* {advice}"):
        named_layer("mine", (1, 8, 8))
