"""A run's images explained by the models that it serves, from one of its states.

On the CPU an image's numbers have the same bits wherever, and beside whichever others, it is explained.

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
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.runtime.run.served import ServedModels
from fedgrid.grids.explain.compute.curves import class_score, score_image
from fedgrid.grids.explain.compute.records import SCHEMA, Row
from fedgrid.grids.explain.compute.saliency import Saliency, grad_cam, input_gradients
from fedgrid.grids.explain.compute.samples import SERVER, Sample, SampleSource, position_of, samples
from fedgrid.grids.explain.compute.settings import Baseline, Explaining, named_layer

KERNEL, DEVIATION = 11, 5.0
"""Pixels of the Gaussian blur of RISE's insertion curve."""
SHOWN = 1
"""Images of each client whose maps are kept."""


def explain_run(
    config: RunConfig,
    run_state: RunState,
    data_dir: Path,
    settings: Explaining,
    device: str = "cpu",
) -> pa.Table:
    """Return the records of one distribution, with the columns of `records.SCHEMA`, a row an image.

    Args:
        config: the run.
        run_state: its state after round `settings.round`.
        data_dir: the folder of the images.
        settings: what is explained, and how.
        device: where, as torch calls it.

    Raises:
        ConfigError: more images than there are, more steps than pixels, or a model that names no layer.
        DataError: the images are missing.
    """
    served = ServedModels(config, run_state, data_dir, device)
    layer = named_layer(config.model, served.inputs)
    layer = layer and served.worker.layer_prefix + layer
    pixels = settings.pixels(int(np.prod(served.inputs.shape[1:])))
    source = SampleSource(
        served.partition, served.labels_K, served.num_server_images, config.root_seed, config.run_id
    )
    rows: list[Row] = []
    for sample in samples(settings, source):
        module = _module(settings, sample, served)
        colour_C = mean_colour(served.training_images(sample.client))
        explainer = Explainer(settings, module, layer, pixels, config.root_seed, colour_C)
        with served.worker.numerics():
            rows += _rows(sample, explainer, served)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@dataclass(frozen=True)
class Explainer:
    """Explains images by one model, each on its own."""

    settings: Explaining
    module: nn.Module
    """In `eval` mode."""
    layer: str | None
    """What is explained; None: the pixels."""
    pixels: int
    """Exchanged in a step."""
    seed: int
    colour_C: Tensor

    def row(self, image_CHW: Tensor, label: int, rng: np.random.Generator, *, shown: bool) -> Row:
        """Return the prediction, the scores and, if `shown`, the map of an image of [0, 1]."""
        published = self.settings.as_published
        kind = "black" if published else self.settings.baseline
        baseline_CHW = baseline_of(kind, image_CHW, self.colour_C)
        with torch.inference_mode():
            # Each on its own: the last bits depend on the images of a batch.
            logits, of_baseline = (self.module(input_CHW[None])[0] for input_CHW in (image_CHW, baseline_CHW))
        prediction = int(logits.argmax())
        row: Row = {
            "label": label,
            "prediction": prediction,
            "base_prediction": int(of_baseline.argmax()),
        }
        saliency = self._map(image_CHW, label if published else prediction)
        map_HW = saliency.maps_NHW[0]
        if not bool(torch.isfinite(logits).all() and torch.isfinite(map_HW).all()):
            return row
        score = class_score(self.module, prediction)
        row |= score_image(score, image_CHW, baseline_CHW, map_HW, self.pixels, rng)
        row |= {
            "map_largest": float(saliency.largest_N[0]),
            "map_values": len(np.unique(map_HW.cpu().numpy())),
        }
        if shown:
            row |= {"map": _bytes(map_HW), "pixels": _bytes(image_CHW)}
        return row

    def _map(self, image_CHW: Tensor, target: int) -> Saliency:
        image_1CHW, target_1 = image_CHW[None], torch.tensor([target])
        if self.layer is None:
            return input_gradients(self.module, image_1CHW, target_1)
        return grad_cam(self.module, self.layer, image_1CHW, target_1)


def _rows(sample: Sample, explainer: Explainer, served: ServedModels) -> Iterator[Row]:
    images = zip(sample.holder_N.tolist(), sample.place_N.tolist(), sample.trained_on_N.tolist(), strict=True)
    for number, (place_holder, place, trained_on) in enumerate(images):
        holder = None if place_holder == SERVER else place_holder
        image_CHW, label = served.image(holder, place)
        # The same random order for every algorithm, and for every model that explains the image.
        rng = generator(explainer.seed, f"random order of image {place}", client=place_holder)
        yield {
            "client": sample.client,
            "cluster": sample.cluster,
            "holder": holder,
            "place": place,
            "position": position_of(served.partition, place_holder, place),
            "trained_on": trained_on,
            **explainer.row(image_CHW, label, rng, shown=number < SHOWN),
        }


def _module(settings: Explaining, sample: Sample, served: ServedModels) -> nn.Module:
    """Return the module that explains a sample."""
    if settings.as_published and settings.on == "others":
        outside = np.flatnonzero(served.labels_K != sample.cluster).tolist()
        return served.mean_module(sample.client, outside)
    return served.module(sample.client)


def _bytes(values: Tensor) -> bytes:
    """Return values of [0, 1] as bytes of 0 to 255, in index order."""
    return bytes((values * 255).round().to(torch.uint8).cpu().numpy().tobytes())


def mean_colour(images_NCHW: Tensor) -> Tensor:
    """Return the mean of each channel of uint8 images, float32 in [0, 1], shape (C,).

    Sums of whole numbers: the same bits in any order.
    """
    sums_C = images_NCHW.sum(dim=(0, 2, 3), dtype=torch.int64).double()
    return (sums_C / (images_NCHW.numel() / images_NCHW.shape[1]) / 255).float()


def baseline_of(kind: Baseline, image_CHW: Tensor, colour_C: Tensor) -> Tensor:
    """Return the baseline of an image of [0, 1], of its shape."""
    if kind == "black":
        return torch.zeros_like(image_CHW)
    if kind == "mean":
        return colour_C.view(-1, 1, 1).expand_as(image_CHW).contiguous()
    return blurred(image_CHW)


def blurred(image_CHW: Tensor) -> Tensor:
    """Return an image under a Gaussian; what lies outside it does not count, so that a constant stays one."""
    at = torch.arange(KERNEL, dtype=torch.float64, device=image_CHW.device) - KERNEL // 2
    line = torch.exp(-(at**2) / (2 * DEVIATION**2)).float()
    kernel = torch.outer(line, line).view(1, 1, KERNEL, KERNEL)
    image_C1HW = image_CHW[:, None]
    sums = functional.conv2d(image_C1HW, kernel, padding=KERNEL // 2)
    weights = functional.conv2d(torch.ones_like(image_C1HW), kernel, padding=KERNEL // 2)
    return (sums / weights)[:, 0]
