"""Explanation of a run's images by the models that it serves, from one of its states.

On the CPU the numbers of an image have the same bits wherever it is explained, and whichever others are.

Source: Zuziak et al. 2025, arXiv:2509.01587, section 5, Algorithm 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.runtime.run.served_models import ServedModels
from fedgrid.grids.explain.compute.curves import build_class_score, score_image
from fedgrid.grids.explain.compute.records import SCHEMA, Row
from fedgrid.grids.explain.compute.saliency import Saliency, compute_input_gradients, grad_cam
from fedgrid.grids.explain.compute.samples import SERVER, Sample, SampleSource, draw_samples, find_position
from fedgrid.grids.explain.compute.settings import Baseline, ExplanationSettings, find_named_layer

KERNEL, DEVIATION = 11, 5.0
"""Width and deviation, in pixels, of the Gaussian blur of RISE's insertion curve."""
NUM_STORED_MAPS = 1
"""Images of each client whose maps are stored."""


def explain_run(
    config: RunConfig,
    run_state: RunState,
    data_dir: Path,
    settings: ExplanationSettings,
    device: str = "cpu",
) -> pa.Table:
    """Explain the images of one distribution.

    Args:
        config: The run's configuration.
        run_state: Its state after round `settings.round`.
        data_dir: Folder of the images.
        settings: What is explained, and how.
        device: Device in torch's notation, the CPU by default.

    Returns:
        A row for each image, with the columns of `records.SCHEMA`.

    Raises:
        ConfigError: There are fewer images or pixels than images or steps, or the model names no layer.
        DataError: The images are missing.
    """
    served = ServedModels(config, run_state, data_dir, device)
    layer = find_named_layer(config.model, served.inputs)
    # The worker may wrap the model, which prefixes the names of layers.
    layer = layer and served.worker.layer_prefix + layer
    pixels = settings.compute_step(int(np.prod(served.inputs.shape[1:])))
    source = SampleSource(
        served.partition, served.labels_K, served.num_server_images, config.root_seed, config.run_id
    )
    rows: list[Row] = []
    for sample in draw_samples(settings, source):
        module = _build_module(settings, sample, served)
        colour_C = compute_mean_colour(served.load_training_images(sample.client))
        explainer = Explainer(settings, module, layer, pixels, config.root_seed, colour_C)
        with served.worker.fix_worker_numerics():
            rows += _build_rows(sample, explainer, served)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@dataclass(frozen=True)
class Explainer:
    """Explains images by one model, each on its own."""

    settings: ExplanationSettings
    module: nn.Module
    """The model in `eval` mode."""
    layer: str | None
    """Name of the layer that is explained; None for the pixels."""
    pixels: int
    """Number of pixels that are exchanged in a step."""
    seed: int
    colour_C: Tensor

    def explain_image(self, image_CHW: Tensor, label: int, rng: np.random.Generator, *, shown: bool) -> Row:
        """Explain one image.

        Args:
            image_CHW: The image, in [0, 1].
            label: Its class.
            rng: Draws the random order of its pixels.
            shown: Whether the row has the map.

        Returns:
            Prediction, scores and map; only the prediction if the model gives no finite numbers.
        """
        published = self.settings.as_published
        kind = "black" if published else self.settings.baseline
        baseline_CHW = build_baseline(kind, image_CHW, self.colour_C)
        with torch.inference_mode():
            # One image in a pass: the last bits depend on the other images of a batch.
            logits, baseline_logits = (
                self.module(input_CHW[None])[0] for input_CHW in (image_CHW, baseline_CHW)
            )
        prediction = int(logits.argmax())
        row: Row = {
            "label": label,
            "prediction": prediction,
            "base_prediction": int(baseline_logits.argmax()),
        }
        # As published the map is of the label, although the curves follow the prediction.
        saliency = self._compute_map(image_CHW, label if published else prediction)
        map_HW = saliency.maps_NHW[0]
        if not bool(torch.isfinite(logits).all() and torch.isfinite(map_HW).all()):
            return row
        score = build_class_score(self.module, prediction)
        row |= score_image(score, image_CHW, baseline_CHW, map_HW, self.pixels, rng)
        row |= {
            "map_largest": float(saliency.largest_N[0]),
            "map_values": len(np.unique(map_HW.cpu().numpy())),
        }
        if shown:
            row |= {"map": _to_bytes(map_HW), "pixels": _to_bytes(image_CHW)}
        return row

    def _compute_map(self, image_CHW: Tensor, target: int) -> Saliency:
        """Compute the saliency map of an image for a class."""
        image_1CHW, target_1 = image_CHW[None], torch.tensor([target])
        if self.layer is None:
            return compute_input_gradients(self.module, image_1CHW, target_1)
        return grad_cam(self.module, self.layer, image_1CHW, target_1)


def _build_rows(sample: Sample, explainer: Explainer, served: ServedModels) -> Iterator[Row]:
    """Yield the row of each image of a sample."""
    images = zip(sample.holder_N.tolist(), sample.place_N.tolist(), sample.trained_on_N.tolist(), strict=True)
    for number, (place_holder, place, trained_on) in enumerate(images):
        holder = None if place_holder == SERVER else place_holder
        image_CHW, label = served.load_image(holder, place)
        # The seed has neither algorithm nor model: the random order of an image is the same for all of them.
        rng = make_generator(explainer.seed, f"random order of image {place}", client=place_holder)
        yield {
            "client": sample.client,
            "cluster": sample.cluster,
            "holder": holder,
            "place": place,
            "position": find_position(served.partition, place_holder, place),
            "trained_on": trained_on,
            **explainer.explain_image(image_CHW, label, rng, shown=number < NUM_STORED_MAPS),
        }


def _build_module(settings: ExplanationSettings, sample: Sample, served: ServedModels) -> nn.Module:
    """Build the module that explains a sample."""
    if settings.as_published and settings.on == "others":
        outside = np.flatnonzero(served.labels_K != sample.cluster).tolist()
        return served.load_mean_module(sample.client, outside)
    return served.load_module(sample.client)


def _to_bytes(values: Tensor) -> bytes:
    """Convert values of [0, 1] to bytes of 0 to 255, in index order."""
    return bytes((values * 255).round().to(torch.uint8).cpu().numpy().tobytes())


def compute_mean_colour(images_NCHW: Tensor) -> Tensor:
    """Compute the mean of each channel of uint8 images, float32 in [0, 1], shape (C,).

    Sums of integers have the same bits in any order.
    """
    sums_C = images_NCHW.sum(dim=(0, 2, 3), dtype=torch.int64).double()
    return (sums_C / (images_NCHW.numel() / images_NCHW.shape[1]) / 255).float()


def build_baseline(kind: Baseline, image_CHW: Tensor, colour_C: Tensor) -> Tensor:
    """Build the baseline of an image of [0, 1], of its shape."""
    if kind == "black":
        return torch.zeros_like(image_CHW)
    if kind == "mean":
        return colour_C.view(-1, 1, 1).expand_as(image_CHW).contiguous()
    return blur_image(image_CHW)


def blur_image(image_CHW: Tensor) -> Tensor:
    """Blur an image with a Gaussian.

    Pixels outside the image have no weight, so that a constant image stays the same.
    """
    at = torch.arange(KERNEL, dtype=torch.float64, device=image_CHW.device) - KERNEL // 2
    line = torch.exp(-(at**2) / (2 * DEVIATION**2)).float()
    kernel = torch.outer(line, line).view(1, 1, KERNEL, KERNEL)
    image_C1HW = image_CHW[:, None]
    sums = functional.conv2d(image_C1HW, kernel, padding=KERNEL // 2)
    # Dividing by the weights inside the image keeps its border from darkening.
    weights = functional.conv2d(torch.ones_like(image_C1HW), kernel, padding=KERNEL // 2)
    return (sums / weights)[:, 0]
