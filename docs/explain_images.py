"""Explains three images by Grad-CAM, and scores the maps by insertion and deletion."""

import numpy as np
import torch

from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import registry
from fedgrid.grids.explain.compute.curves import build_class_score, score_image
from fedgrid.grids.explain.compute.saliency import compute_input_gradients, find_feature_layer, grad_cam
from fedgrid.grids.explain.compute.settings import compute_pixels_per_step

torch.manual_seed(0)
model = registry.build_model("tinyvgg", image_inputs(1, 28, 28), 10).eval()
images = torch.rand(3, 1, 28, 28)  # in [0, 1], as the model sees them
classes = model(images).argmax(dim=1)

layer = find_feature_layer(model, images[0])  # None for a perceptron
maps = grad_cam(model, layer, images, classes) if layer else compute_input_gradients(model, images, classes)
scores = [
    score_image(
        build_class_score(model, int(classes[n])),
        images[n],
        torch.zeros(1, 28, 28),  # the baseline: black
        maps.maps_NHW[n],
        step=compute_pixels_per_step(28 * 28, 32),
        rng=np.random.default_rng([7, n]),
    )
    for n in range(len(images))
]
for name in ("insertion", "deletion", "p_full"):
    print(name, np.mean([image[name] for image in scores]))
