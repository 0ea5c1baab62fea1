"""A run's images explained by the models that it serves, from one of its states.

A model is loaded, and adapted, as for the client's own test, so that accuracies are those of the records. On
the CPU an image's numbers have the same bits wherever, and beside whichever others, it is explained.

Source: Zuziak et al. 2025, arXiv:2509.01587, section 5, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from fedgrid.engine.federation.clients.messages import EvaluateTask, Memory, Setup
from fedgrid.engine.federation.clients.process import fixed_numerics
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.federation.training.evaluation import to_inputs
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.engine.runtime.run.prepare import prepare
from fedgrid.grids.explain.explanations.baselines import baseline_of, mean_colour
from fedgrid.grids.explain.explanations.curves import class_score
from fedgrid.grids.explain.explanations.held import held_in
from fedgrid.grids.explain.explanations.layers import named_layer
from fedgrid.grids.explain.explanations.measures import score_image
from fedgrid.grids.explain.explanations.records import SCHEMA, Row, score_columns
from fedgrid.grids.explain.explanations.saliency import Saliency, grad_cam, input_gradients
from fedgrid.grids.explain.explanations.samples import SERVER, Sample, Source, position_of, samples

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.orders import Served
    from fedgrid.algorithms.updates.source import Vector
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.dealing.split import ClientSplit
    from fedgrid.engine.federation.round.run_state import RunState
    from fedgrid.grids.explain.explanations.settings import Explaining

SHOWN = 1
"""Images of each client whose maps are kept."""


class Servers(ClientWorker):
    """The clients of a run, and the models that they are served."""

    def module(self, task: EvaluateTask, models: Sequence[Vector], memory: Memory) -> nn.Module:
        """Return the module with the weights with which a client is tested, in `eval` mode."""
        with self._fixed():
            task = self._placed(task, models, {})
            assert task.own is not None, "every client is served a model"
            if task.adaptation is None:
                self._flat.write(models[task.own])
            else:
                # The adapted weights stay in the module.
                self._test_adapted(task, models, memory)
        return self._flat.module.eval()

    def image(self, holder: int, place: int, round_index: int) -> tuple[Tensor, int]:
        """Return a test image of a client, or of the server, as the model sees it, and its class."""
        held = self._server_set if holder == SERVER else self._holdings.test(holder, round_index)
        return to_inputs(held.images[place]), int(held.labels[place])

    def colour(self, client: int, round_index: int) -> Tensor:
        """Return the mean colour of a client's training images, shape (channels,)."""
        return mean_colour(self._holdings.train(client, round_index).images)


def explain_run(
    config: RunConfig,
    run_state: RunState,
    data_dir: Path,
    settings: Explaining,
    device: str = "cpu",
    done: Callable[[int], object] = lambda images: None,
) -> pa.Table:
    """Return the records of one distribution, with the columns of `records.SCHEMA`, a row an image.

    Args:
        config: the run.
        progress: its state after round `settings.round`.
        data_dir: the folder of the images.
        settings: what is explained, and how.
        device: where, as torch calls it.
        done: called with the number of images that have been explained since the last call.

    Raises:
        ConfigError: more images than there are, more steps than pixels, or a model that names no layer.
        DataError: the images are missing.
    """
    round_index = settings.round - 1
    splits = held_in(config, data_dir, round_index)
    setup, _ = prepare(config, data_dir)
    layer = layer_of(config.model, setup)
    pixels = settings.pixels(int(np.prod(setup.server_set.images.shape[2:])))
    state = run_state.state
    source = Source(splits, state.labels_K, len(setup.server_set), config.root_seed, config.run_id)
    drawn = samples(settings, source)
    servers = Servers(setup, device)
    served = algorithm_of(config).served(state)
    rows: list[Row] = []
    for sample in drawn:
        models, task = _model(settings, sample, served, state.labels_K, round_index)
        module = servers.module(task, models, run_state.memories.get(sample.client, {}))
        explainer = Explainer(
            settings, module, layer, pixels, config.root_seed, servers.colour(sample.client, round_index)
        )
        with fixed_numerics(config.training.tf32):
            rows += _rows(sample, explainer, servers, splits, round_index)
        done(len(sample.holder_N))
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def layer_of(model: str, setup: Setup) -> str | None:
    """Return the name of the layer that is explained in a worker's module; None: the pixels are.

    Raises:
        ConfigError: the model's definition does not say.
    """
    named = named_layer(model, setup.server_set.images.shape[1:])
    # The worker wraps the module to normalise images, and to compute in bfloat16.
    wrappers = (setup.normalised_by is not None) + (setup.training.precision == "bfloat16")
    return named and "module." * wrappers + named


class Explainer:
    """Explains images by one model, each on its own."""

    def __init__(
        self,
        settings: Explaining,
        module: nn.Module,
        layer: str | None,
        pixels: int,
        seed: int,
        colour_C: Tensor,
    ) -> None:
        """Take a model in `eval` mode, the layer to explain (None: the pixels) and pixels a step."""
        self._settings = settings
        self._module = module
        self._layer = layer
        self._pixels = pixels
        self.seed = seed
        self._colour_C = colour_C

    def row(self, image_CHW: Tensor, label: int, rng: np.random.Generator, *, shown: bool) -> Row:
        """Return the prediction, the scores and, if `shown`, the map of an image of [0, 1]."""
        published = self._settings.as_published
        kind = "black" if published else self._settings.baseline
        baseline_CHW = baseline_of(kind, image_CHW, self._colour_C)
        with torch.inference_mode():
            # Each on its own: the last bits depend on the images of a batch.
            logits, of_baseline = (self._module(each[None])[0] for each in (image_CHW, baseline_CHW))
        prediction = int(logits.argmax())
        row: Row = {
            "label": label,
            "prediction": prediction,
            "base_prediction": int(of_baseline.argmax()),
        }
        found = self._map(image_CHW, label if published else prediction)
        map_HW = found.maps_NHW[0]
        if not bool(torch.isfinite(logits).all() and torch.isfinite(map_HW).all()):
            return row
        score = class_score(self._module, prediction)
        scores = score_image(score, image_CHW, baseline_CHW, map_HW, self._pixels, rng)
        row |= score_columns(scores)
        row |= {"map_largest": float(found.largest_N[0]), "map_values": len(np.unique(map_HW.cpu().numpy()))}
        if shown:
            row |= {"map": _bytes(map_HW), "pixels": _bytes(image_CHW)}
        return row

    def _map(self, image_CHW: Tensor, target: int) -> Saliency:
        image_1CHW, target_1 = image_CHW[None], torch.tensor([target])
        if self._layer is None:
            return input_gradients(self._module, image_1CHW, target_1)
        return grad_cam(self._module, self._layer, image_1CHW, target_1)


def _rows(
    sample: Sample,
    explainer: Explainer,
    servers: Servers,
    splits: Sequence[ClientSplit],
    round_index: int,
) -> Iterator[Row]:
    each = zip(sample.holder_N.tolist(), sample.place_N.tolist(), sample.trained_on_N.tolist(), strict=True)
    for number, (holder, place, trained_on) in enumerate(each):
        image_CHW, label = servers.image(holder, place, round_index)
        # The same random order for every algorithm, and for every model that explains the image.
        rng = generator(explainer.seed, f"random order of image {place}", client=holder)
        yield {
            "client": sample.client,
            "cluster": sample.cluster,
            "holder": None if holder == SERVER else holder,
            "place": place,
            "position": position_of(splits, holder, place),
            "trained_on": trained_on,
            **explainer.row(image_CHW, label, rng, shown=number < SHOWN),
        }


def _model(
    settings: Explaining, sample: Sample, served: Served, labels_K: np.ndarray, round_index: int
) -> tuple[Sequence[Vector], EvaluateTask]:
    """Return the models, and the task that says which of them explains a sample."""
    if settings.as_published and settings.on == "others":
        outside = np.flatnonzero(labels_K != sample.cluster)
        models = [served.models[served.model_K[client]] for client in outside]
        mean_P = np.asarray(np.mean(models, axis=0, dtype=np.float64), np.float32)
        return [mean_P], EvaluateTask(sample.client, 0, round_index=round_index)
    is_choosing = sample.client in served.choosing
    return served.models, EvaluateTask(
        sample.client,
        int(served.model_K[sample.client]),
        served.adaptation,
        round_index,
        served.choose_on if is_choosing else None,
        served.choose_by,
    )


def _bytes(values: Tensor) -> bytes:
    """Return values of [0, 1] as bytes of 0 to 255, in index order."""
    return bytes((values * 255).round().to(torch.uint8).cpu().numpy().tobytes())
