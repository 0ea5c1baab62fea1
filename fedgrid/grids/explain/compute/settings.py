"""Settings of an explanation: everything, apart from the run, that the scores of its images depend on."""

import json
from hashlib import sha256
from typing import Literal

from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.registry import INPUT, MODELS

On = Literal["members", "others", "server"]
"""Owners of images: clients of the model's own cluster, other clients, or the server, who are tested with
them."""
Baseline = Literal["mean", "black", "blur"]
"""Values of an absent pixel: the mean colour of the client's training images, 0, or the image blurred (11x11
pixels, deviation 5, as in RISE)."""

METHOD = 1
"""Version of the computation: part of the key, so that a change of it explains every run again."""
IMAGES, STEPS = 24, 32
PUBLISHED_IMAGES, PUBLISHED_PIXELS, PUBLISHED_BATCH = 350, 10, 32
"""Images of a cluster, pixels exchanged at a time, and images of a batch, of the OCFL journal paper."""


class ExplanationSettings(Section):
    """Settings with which one distribution of images is explained after one round of a run.

    As published, images are drawn for each cluster, and again for each algorithm; the map is of the label and
    the curve of the prediction; absent pixels are black, ten are exchanged at a time; and images of others
    are explained by the mean of all models outside the cluster.
    """

    on: On
    round: PositiveInt
    """Round after which the state is explained, counted from 1."""
    images: PositiveInt = IMAGES
    """Number of images of each client; as published, of each cluster."""
    steps: PositiveInt = STEPS
    """Most steps of a curve; without effect as published."""
    baseline: Baseline = "mean"
    """Values of absent pixels; black as published."""
    as_published: bool = False

    @property
    def key(self) -> str:
        """Id of these settings: the distribution and twelve hexadecimal digits."""
        # `FORMAT` changes with the bits of training: an equal configuration is then another run.
        values = {"format": FORMAT, "method": METHOD, **self.model_dump(mode="json")}
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return f"{self.on}-{sha256(text.encode()).hexdigest()[:12]}"

    def compute_step(self, num_pixels: int) -> int:
        """Compute how many of an image's pixels are exchanged at a time.

        Raises:
            ConfigError: There are more steps than pixels.
        """
        if not self.as_published:
            return compute_pixels_per_step(num_pixels, self.steps)
        check_step(num_pixels, PUBLISHED_PIXELS)
        return PUBLISHED_PIXELS


def compute_pixels_per_step(num_pixels: int, num_steps: int) -> int:
    """Compute the pixels to exchange at a time so that at most `num_steps` steps are enough.

    Raises:
        ConfigError: `num_steps` is not 1 to `num_pixels`.
    """
    if not 1 <= num_steps <= num_pixels:
        raise ConfigError(f"{num_steps} steps for an image of {num_pixels} pixels; choose 1 to {num_pixels}")
    # Rounded up, so that the last step may be a short one.
    return -(-num_pixels // num_steps)


def list_counts(num_pixels: int, step: int) -> tuple[int, ...]:
    """Compute the number of exchanged pixels at each of the K + 1 points: 0, `step`, ..., P.

    Raises:
        ConfigError: `step` is not 1 to `num_pixels`.
    """
    check_step(num_pixels, step)
    return (*range(0, num_pixels, step), num_pixels)


def check_step(num_pixels: int, step: int) -> None:
    """Check that a step is 1 to `num_pixels` pixels.

    Raises:
        ConfigError: It is not.
    """
    if not 1 <= step <= num_pixels:
        raise ConfigError(
            f"{step} pixels a step in an image of {num_pixels} pixels; choose 1 to {num_pixels}"
        )


def find_named_layer(model: str, inputs: Inputs) -> str | None:
    """Find the layer that is explained; None if the pixels are, by input gradients.

    Args:
        model: A key of `MODELS`.
        inputs: Images.

    Raises:
        ConfigError: There is no such model, or its definition does not name a layer.
    """
    if model not in MODELS:
        raise unknown_name_error("model", model, MODELS)
    named = MODELS[model].saliency_layer
    if named is None:
        advice = _suggest_layer(model, inputs)
        raise ConfigError(
            f"model '{model}' does not say which layer is explained: give its ModelEntry {advice}"
        )
    return None if named == INPUT else named


def _suggest_layer(model: str, inputs: Inputs) -> str:
    """Suggest the layer that a model's entry should name."""
    # Importing torch takes seconds.
    import torch

    from fedgrid.engine.federation.models.flat_vectors import build_blank
    from fedgrid.grids.explain.compute.saliency import find_feature_layer

    layer = find_feature_layer(build_blank(model, inputs, 2).eval(), torch.zeros(inputs.shape))
    if layer is None:
        return f"saliency_layer='{INPUT}' (input gradients: it has no feature map)"
    return f"saliency_layer='{layer}' (its last feature map)"
