"""Local training of one client: a pure function of model, data, settings and generator.

This is where a run's time goes. Images lie on the device as one tensor, channels last; an epoch takes
its batches from them in a seeded order; the optimizer works on one flat tensor; nothing is read back from the
device before the last epoch ends. Shapes: N images, P entries of a state vector of which W are parameters.
"""

from math import ceil, nan

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule, LocalSteps
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.own_code import BY_TORCH, own_code
from fedgrid.engine.federation.seeds import seeded
from fedgrid.engine.federation.training.batches import batches, channels_last, draw_moves
from fedgrid.engine.federation.training.evaluation import predict, set_mode, to_inputs
from fedgrid.engine.federation.training.layers import reset_norms, smallest_batch
from fedgrid.engine.federation.training.optimizers import OPTIMIZERS, clip
from fedgrid.engine.federation.training.results import NOTHING, OPTIMIZER, PERSONAL, LocalResult, Memory
from fedgrid.engine.federation.training.settings import LocalTraining


@torch.enable_grad()
def train(
    flat: FlatModule,
    start: Vector,
    images: Tensor,
    labels: Tensor,
    training: LocalTraining,
    rng: np.random.Generator,
    memory: Memory = NOTHING,
    *,
    rule: LocalRule = PLAIN,
    payload: Memory = NOTHING,
    reference: Tensor | None = None,
    max_steps: int | None = None,
) -> LocalResult:
    """Train from `start` on all images for `training.local_epochs` epochs, or `training.local_steps` steps.

    A last batch of a single image is left out for models with BatchNorm, which has no variance there.

    Args:
        flat: the workspace; its former content is overwritten.
        start: the whole state to start from, shape (P,); only read.
        images: as `ImageSet.images`, images best with channels last, on the module's device.
        labels: int64, shape (N,), on the same device.
        training: the settings.
        rng: draws one permutation of the images an epoch; children of it draw crops and flips,
            and what the model draws itself, such as dropout.
        memory: `LocalResult.memory` of the client's last round; without it the optimizer starts fresh.
        rule: hooks into this loop.
        payload: the rule's arrays.
        reference: the server's reference images for rules that predict on them.
        max_steps: stop after this many optimizer steps; None: as `training` says.

    Raises:
        ConfigError: batches of one image for a model with BatchNorm.
    """
    smallest = smallest_batch(flat.module, training.batch_size)
    moves, own = rng.spawn(2)
    is_round, max_steps = max_steps is None, training.local_steps if max_steps is None else max_steps
    with seeded(str(flat.weights.device), own), own_code(rule, "start", BY_TORCH):
        flat.write(_restore_own_entries(start, rule, memory))
        if is_round and training.buffers == "reset":
            reset_norms(flat.module)
        local = Local(flat, training, memory, payload, reference)
        begins = range(0, len(labels) - smallest + 1, training.batch_size)
        local.plan(len(begins), max_steps)
        steps = rule.start(local)
        if rule is not PLAIN:
            local.note_start()
        set_mode(flat.module, training=True)
        pixels = channels_last(images)
        logits: list[Tensor] = []
        targets: list[Tensor] = []
        for epoch_index in range(local.num_epochs):
            local.epoch_index = epoch_index
            order = torch.from_numpy(rng.permutation(len(labels))).to(labels.device, non_blocking=True)
            moved = draw_moves(len(order), training.augment, moves, order.device)
            epoch_labels, size = labels.index_select(0, order), training.batch_size
            for begin, inputs in zip(begins, batches(pixels, order, moved, size), strict=False):
                if len(logits) == local.num_steps:
                    break
                targets.append(epoch_labels[begin : begin + size])
                logits.append(steps.step(local, inputs, targets[-1]))
        finished = steps.finish(local, len(logits))
        outputs, own_memory = finished.outputs, finished.memory
        local.check_start(rule)
    model = flat.read()
    losses, accuracies = _running_means(logits, targets, training.local_epochs if max_steps is None else 1)
    return LocalResult(
        model=model,
        losses=losses,
        accuracies=accuracies,
        steps=len(logits),
        outputs=outputs,
        memory={**local.optimizer_memory(), **_own_entries(model, rule), **own_memory},
    )


class Local:
    """The model in training, as a rule's hooks see it (`algorithms.contract.local_rule.LocalModel`)."""

    def __init__(
        self,
        flat: FlatModule,
        training: LocalTraining,
        memory: Memory,
        payload: Memory,
        reference: Tensor | None,
    ) -> None:
        self._flat, self._training = flat, training
        self._optimizer = OPTIMIZERS[training.optimizer](flat, training, memory.get(OPTIMIZER))
        self.weights = flat.weights
        self.learning_rate, self.momentum = training.learning_rate, training.momentum
        self.memory, self.payload = memory, payload
        self.num_steps = self.num_epochs = self.epoch_index = 0
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

    def note_start(self) -> None:
        """Keep the parameters as they are now: a rule's `start` may have changed them."""
        self._start = self.weights.detach().clone()

    def check_start(self, rule: LocalRule) -> None:
        """Raise ValueError if the rule has written to `start`."""
        if self._start is not None and self._start._version:
            raise ValueError(f"{type(rule).__name__} wrote to local.start; work on a copy")

    @property
    def reference(self) -> Tensor | None:
        """The server's reference images as inputs, converted anew each time."""
        return None if self._reference is None else to_inputs(self._reference)

    def tensor(self, vector: Vector) -> Tensor:
        """Return a vector in the layout's order, shape (W,) or (P,), as a tensor like `weights`."""
        return self._flat.scatter(vector)

    def vector(self, tensor: Tensor) -> Vector:
        """Return a tensor like `weights` as a vector in the layout's order."""
        return self._flat.gather(tensor)

    def logits(self, images: Tensor) -> Tensor:
        """Return the model's outputs."""
        outputs: Tensor = self._flat.module(images)
        return outputs

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a scalar with respect to `weights`; the next call overwrites it."""
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return self._flat.gradient

    def predict(self, images: Tensor | None = None) -> np.ndarray:
        """Return class probabilities in inference mode; the module is left in training mode."""
        images = self._reference if images is None else images
        if images is None:
            raise ValueError("there are no reference images: set split.reference_images")
        probabilities = predict(self._flat.module, images)
        set_mode(self._flat.module, training=True)
        return probabilities

    def step(self, images: Tensor, labels: Tensor, steps: LocalSteps) -> Tensor:
        """Train on one batch; return its logits before the step."""
        logits = self.logits(images)
        loss = functional.cross_entropy(logits, labels)
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


def _restore_own_entries(start: Vector, rule: LocalRule, memory: Memory) -> Vector:
    """Return the model with the client's own entries in their place, once it has any."""
    if PERSONAL not in memory or not rule.personal:
        return start
    lengths = [stop - first for first, stop in rule.personal]
    if memory[PERSONAL].shape != (sum(lengths),):
        raise ValueError(
            f"{len(memory[PERSONAL])} personal entries are remembered, but this model has {sum(lengths)}"
        )
    model, parts = start.copy(), np.split(memory[PERSONAL], np.cumsum(lengths)[:-1])
    for (first, stop), part in zip(rule.personal, parts, strict=True):
        model[first:stop] = part
    return model


def _own_entries(model: Vector, rule: LocalRule) -> Memory:
    own = [model[first:stop] for first, stop in rule.personal]
    return {PERSONAL: np.concatenate(own)} if own else {}


def _running_means(
    logits: list[Tensor], labels: list[Tensor], num_epochs: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean cross-entropy and accuracy of each epoch from all batches, read back in one go."""
    if not logits:
        return (nan,) * num_epochs, (nan,) * num_epochs
    outputs, targets = torch.cat(logits).double(), torch.cat(labels)
    losses = functional.cross_entropy(outputs, targets, reduction="none")
    hits = (outputs.argmax(dim=1) == targets).double()
    means = torch.stack([losses, hits]).view(2, num_epochs, -1).mean(dim=2).tolist()
    return tuple(means[0]), tuple(means[1])


def check_names(rule: LocalRule, result: LocalResult) -> None:
    """Check that a rule has returned what it declares, because only that is sent and kept.

    Raises:
        ValueError: otherwise.
    """
    kinds = {
        "outputs": (set(rule.outputs), set(result.outputs)),
        "remembers": (set(rule.remembers), set(result.memory) - {OPTIMIZER, PERSONAL}),
    }
    for name, (declared, returned) in kinds.items():
        if declared != returned:
            raise ValueError(
                f"{type(rule).__name__}.{name} declares {sorted(declared)}, its `finish` returned "
                f"{sorted(returned)}"
            )
