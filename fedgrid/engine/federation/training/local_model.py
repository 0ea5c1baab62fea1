"""A client's model in training, as the hooks of a local rule see it.

Shapes: N images, P entries of a state vector of which W are parameters.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule, LocalSteps
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.training import task
from fedgrid.engine.federation.training.evaluation import TEST_BATCH, predict, set_mode, to_inputs
from fedgrid.engine.federation.training.optimizers import OPTIMIZERS, clip
from fedgrid.engine.federation.training.results import OPTIMIZER, Memory
from fedgrid.engine.federation.training.settings import LocalTraining


class Local:
    """What `algorithms.contract.local_rule.LocalModel` promises."""

    def __init__(
        self,
        flat: FlatModule,
        held: tuple[Tensor, Tensor],
        training: LocalTraining,
        memory: Memory,
        payload: Memory,
        reference: Tensor | None,
    ) -> None:
        """Take the workspace with the model, and what the client holds: images and classes."""
        self._flat, self._training = flat, training
        self._optimizer = OPTIMIZERS[training.optimizer](flat, training, memory.get(OPTIMIZER))
        self.weights = flat.weights
        self.learning_rate, self.momentum = training.learning_rate, training.momentum
        self.memory, self.payload = memory, payload
        self.num_steps = self.num_epochs = self.epoch_index = 0
        self._held, self.positions = held, held[1].new_zeros(0)
        self._start: Tensor | None = None
        self._reference = reference

    def plan(self, batches: int, max_steps: int | None) -> None:
        """Set the length of the training: `local_epochs` epochs of `batches` each, or `max_steps`."""
        if max_steps is None:
            self.num_epochs = self._training.local_epochs
            self.num_steps = batches * self.num_epochs
        elif batches:
            self.num_epochs, self.num_steps = ceil(max_steps / batches), max_steps

    @property
    def start(self) -> Tensor:
        """The parameters before the first step, shape (W,)."""
        return self.weights.detach().clone() if self._start is None else self._start

    def note_start(self, rule: LocalRule) -> None:
        """Keep the parameters as they are now, for a rule, whose `start` may have changed them."""
        self._start = None if rule is PLAIN else self.weights.detach().clone()

    def check_start(self, rule: LocalRule) -> None:
        """Raise ValueError if the rule has written to `start`."""
        if self._start is not None and self._start._version:
            raise ValueError(f"{type(rule).__name__} wrote to local.start; work on a copy")

    @property
    def reference(self) -> Tensor | None:
        """The server's reference images as inputs, converted anew each time."""
        return None if self._reference is None else to_inputs(self._reference)

    @property
    def features(self) -> Tensor:
        """What went into the head in the last forward pass, as float32."""
        if self._flat.features is None:
            raise ValueError("no features: the model's entry names no head, or nothing has passed it yet")
        return self._flat.features.float()

    def snapshot(self) -> Tensor:
        """Return a copy of the whole state, shape (P,)."""
        return self._flat.snapshot()

    def load(self, state: Tensor | Vector) -> None:
        """Put a snapshot, or a vector in the layout's order, in the model's place."""
        self._flat.load(state) if isinstance(state, Tensor) else self._flat.write(state)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Have the model in inference mode, and no gradients, in the block."""
        before = self._flat.module.training
        set_mode(self._flat.module, training=False)
        with torch.no_grad():
            yield
        set_mode(self._flat.module, training=before)

    def examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and classes of all that the client trains on, a test's batch at a time."""
        parts = zip(*(torch.split(tensor, TEST_BATCH) for tensor in self._held), strict=True)
        return ((to_inputs(images), labels) for images, labels in parts)

    def tensor(self, vector: Vector) -> Tensor:
        """Return a vector in the layout's order, shape (W,) or (P,), as a tensor like `weights`."""
        return self._flat.scatter(vector)

    def vector(self, tensor: Tensor) -> Vector:
        """Return a tensor like `weights`, or a snapshot, as a vector in the layout's order."""
        return self._flat.gather(tensor)

    def logits(self, images: Tensor) -> Tensor:
        """Return the model's outputs."""
        outputs: Tensor = self._flat.module(images)
        return outputs

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean standard loss of a batch."""
        return task.loss(logits, labels)

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a scalar with respect to `weights`; the next call overwrites it."""
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return self._flat.gradient

    def predict(self, images: Tensor | None = None) -> np.ndarray:
        """Return class probabilities in inference mode."""
        images = self._reference if images is None else images
        if images is None:
            raise ValueError("there are no reference images: set split.reference_images")
        if self._held[1].is_floating_point():
            raise ValueError("there are no class probabilities: the data set has numbers to predict")
        with self.inference():
            return predict(self._flat.module, images)

    def step(self, images: Tensor, labels: Tensor, steps: LocalSteps) -> Tensor:
        """Train on one batch; return its logits before the step."""
        logits = self.logits(images)
        loss = steps.loss(self, logits, labels)
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            what = f"a tensor {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(
                f"{type(steps).__name__}.loss returned {what}; expected a scalar tensor with its graph, as "
                "functional.cross_entropy returns"
            )
        penalty = steps.penalty(logits, labels, images)
        gradient = self.gradient(loss if penalty is None else loss + penalty)
        steps.correct(self.weights, gradient)
        if steps.trains is None:
            self.descend(gradient)
        else:
            before = self.weights.clone()
            self.descend(gradient)
            self.weights.copy_(torch.where(steps.trains, self.weights, before))
        return logits.detach()

    def descend(self, gradient: Tensor) -> None:
        """Take one step of the optimizer along a gradient, which may be overwritten."""
        clip(gradient, self._training.clip_gradient)
        self._optimizer.step(self.weights, gradient)

    def optimizer_memory(self) -> Memory:
        """Return the optimizer's state, if it is kept and there is any."""
        memory = self._optimizer.memory() if self._training.keep_optimizer_state else None
        return {} if memory is None else {OPTIMIZER: memory}
