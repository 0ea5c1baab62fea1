"""Explains three images by Grad-CAM, and scores the maps by insertion and deletion."""

import numpy as np
import torch

from fedgrid.engine.federation.inputs import pixels
from fedgrid.engine.federation.models import registry
from fedgrid.grids.explain.compute.curves import class_score, score_image
from fedgrid.grids.explain.compute.saliency import feature_layer, grad_cam, input_gradients
from fedgrid.grids.explain.compute.settings import pixels_a_step

torch.manual_seed(0)
model = registry.build("tinyvgg", pixels(1, 28, 28), 10).eval()
images = torch.rand(3, 1, 28, 28)  # in [0, 1], as the model sees them
classes = model(images).argmax(dim=1)

layer = feature_layer(model, images[0])  # None for a perceptron
maps = grad_cam(model, layer, images, classes) if layer else input_gradients(model, images, classes)
scores = [
    score_image(
        class_score(model, int(classes[n])),
        images[n],
        torch.zeros(1, 28, 28),  # the baseline: black
        maps.maps_NHW[n],
        step=pixels_a_step(28 * 28, 32),
        rng=np.random.default_rng([7, n]),
    )
    for n in range(len(images))
]
for name in ("insertion", "deletion", "p_full"):
    print(name, np.mean([image[name] for image in scores]))
