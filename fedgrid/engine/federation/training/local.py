"""Local training of one client: a pure function of model, data, settings and generator.

This is where a run's time goes. Images lie on the device as one tensor, channels last; an epoch takes its
batches from them in a seeded order; the optimizer works on one flat tensor; nothing is read back from the
device before the last epoch ends.

Shapes: N images, P entries of a state vector of which W are parameters.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil, nan
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.contract.local_rule import PLAIN, LocalOptimizer, LocalRule, LocalSteps
from fedgrid.algorithms.updates.source import Arrays, Layout, Vector
from fedgrid.engine.federation.models.flat_vectors import FlatModule
from fedgrid.engine.federation.seeds import seed_all
from fedgrid.engine.federation.training import task
from fedgrid.engine.federation.training.batches import (
    ImageBatches,
    draw_moves,
    gather_batches,
    move_channels_last,
)
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.evaluation import (
    TEST_BATCH,
    Logits,
    convert_to_inputs,
    predict_probabilities,
    set_mode,
)
from fedgrid.engine.federation.training.layers import find_smallest_batch, reset_norms
from fedgrid.engine.federation.training.optimizers import OPTIMIZERS, clip_gradients
from fedgrid.engine.federation.training.rule_checks import (
    check_finished,
    check_logits,
    check_loss,
    check_mask,
    check_penalty,
    check_steps,
    rule_context,
)
from fedgrid.engine.federation.training.settings import LocalTraining

NO_ARRAYS: Arrays = MappingProxyType({})
HINTS = MappingProxyType(
    {
        "weights": "write local.weights.copy_(...), which changes them in place",
        "memory": "return Finished(memory={...}) from LocalSteps.finish",
    }
)
"""What a hook writes in place of an assignment to an attribute of the model in training."""
OPTIMIZER, PERSONAL = "optimizer", "personal"
"""Names of the optimizer's state and of personal entries (`LocalRule.personal`) in a client's memory."""


@dataclass(frozen=True)
class LocalResult:
    """Result of a client's local training."""

    model: Vector
    """The complete state afterwards, float32, shape (P,)."""
    losses: tuple[float, ...]
    """Mean loss of each epoch, as the model changed; NaN where no image was trained on."""
    accuracies: tuple[float, ...]
    """Share of images classified correctly in each epoch, as the model changed; NaN where no image was
    trained on, and where numbers are predicted."""
    steps: int
    """Number of optimizer steps."""
    outputs: Arrays
    """Arrays of the rule for the server (`LocalRule.outputs`)."""
    memory: Arrays
    """Arrays for the client's next round: those of the rule (`LocalRule.remembers`); personal entries under
    `personal`, in the order of their ranges; if it is kept, the optimizer's state under `optimizer`: shape
    (W,) of SGD with momentum, (2 W + 1,) of Adam."""
    tested: Counts | None = None
    """Result of the test that `train_client` was given; None without one."""
    has_own_test: bool = False
    """Whether the rule has a test of its own (`LocalSteps.test`)."""


@dataclass(frozen=True)
class Moment:
    """The round and the purpose of a client's training."""

    round_index: int = 0
    """The round, from 0."""
    is_adaptation: bool = False
    """Whether it is an adaptation before a test, after that round."""
    make_own_rng: Callable[[], np.random.Generator] = partial(np.random.default_rng, 0)
    """Makes what draws the parts of `LocalModel.batches`, which most rules do not use."""


class ModelInTraining:
    """A client's model in training, as the hooks of a local rule see it: a `LocalModel`.

    Args:
        flat: the workspace with the model.
        held: the client's images and labels.
        training: the settings.
        memory: `LocalResult.memory` of the client's last round.
        payload: the rule's arrays from the server.
        reference: the server's reference images; None: none.
        moment: round and purpose of the training.
    """

    weights: Tensor
    learning_rate: float
    momentum: float
    layout: Layout
    round_index: int
    is_adapting: bool
    memory: Arrays
    payload: Arrays
    num_steps: int
    num_epochs: int
    epoch_index: int
    positions: Tensor

    def __init__(
        self,
        flat: FlatModule,
        held: tuple[Tensor, Tensor],
        training: LocalTraining,
        memory: Arrays,
        payload: Arrays,
        reference: Tensor | None,
        moment: Moment,
    ) -> None:
        """Store the workspace with the model, and the client's images and labels."""
        self._flat = flat
        self._training = training
        self._optimizer = OPTIMIZERS[training.optimizer](flat, training, memory.get(OPTIMIZER))
        self._own_optimizers: dict[str, OwnOptimizer] = {}
        self._moment = moment
        self._own_rng: np.random.Generator | None = None
        self._held = held
        self.update_attributes(
            layout=flat.layout,
            round_index=moment.round_index,
            is_adapting=moment.is_adaptation,
            weights=flat.weights,
            learning_rate=training.learning_rate,
            momentum=training.momentum,
            memory=MappingProxyType(memory),
            payload=MappingProxyType(payload),
            num_steps=0,
            num_epochs=0,
            epoch_index=0,
            positions=held[1].new_zeros(0),
        )
        self._address = flat.weights.data_ptr()
        self._start: Tensor | None = None
        self._reference = reference

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse an assignment by a hook, which would have no effect or a wrong one.

        Raises:
            AttributeError: the attribute is public.
        """
        if not name.startswith("_"):
            hint = HINTS.get(name, "a hook keeps values of its own in its LocalSteps")
            raise AttributeError(f"local.{name} cannot be assigned to; {hint}")
        super().__setattr__(name, value)

    def update_attributes(self, **values: object) -> None:
        """Set public attributes, which only the training loop may."""
        vars(self).update(values)

    def plan(self, batches: int, max_steps: int | None) -> None:
        """Set the length of the training: `local_epochs` epochs of `batches` each, or `max_steps`."""
        if max_steps is None:
            num_epochs = self._training.local_epochs
            self.update_attributes(num_epochs=num_epochs, num_steps=batches * num_epochs)
        # Without a single batch there is no step, and both numbers stay 0.
        elif batches:
            self.update_attributes(num_epochs=ceil(max_steps / batches), num_steps=max_steps)

    @property
    def start(self) -> Tensor:
        """Parameters before the first step, shape (W,)."""
        return self.weights.detach().clone() if self._start is None else self._start

    def note_start(self, rule: LocalRule) -> None:
        """Copy the present parameters for a rule, as its `start` hook may have changed them."""
        self._start = None if rule is PLAIN else self.weights.detach().clone()

    def check_tensors(self, rule: LocalRule) -> None:
        """Check that the rule has neither written to `start` nor moved `weights` to other memory.

        Raises:
            ValueError: it has.
        """
        if self.weights.data_ptr() != self._address:
            raise ValueError(f"{type(rule).__name__} set local.weights.data; {HINTS['weights']}")
        # torch counts the writes to a tensor; comparing the values would take another copy.
        if self._start is not None and self._start._version:
            raise ValueError(f"{type(rule).__name__} wrote to local.start; work on a copy")

    @property
    def reference(self) -> Tensor | None:
        """The server's reference images as inputs, converted at each access; None without any."""
        return None if self._reference is None else convert_to_inputs(self._reference)

    @property
    def features(self) -> Tensor:
        """Inputs of the head in the last forward pass, as float32."""
        if self._flat.features is None:
            raise ValueError("no features: the model's entry names no head, or nothing has passed it yet")
        return self._flat.features.float()

    def snapshot(self) -> Tensor:
        """Copy the complete state, shape (P,)."""
        return self._flat.take_snapshot()

    def load(self, state: Tensor | Vector) -> None:
        """Replace the model's state by a snapshot, or by a vector in the layout's order."""
        self._flat.load_snapshot(state) if isinstance(state, Tensor) else self._flat.write_vector(state)

    @contextmanager
    def substitute(self, state: Tensor | Vector) -> Iterator[None]:
        """Put another state in place for a `with` block; torch's generators are restored too."""
        before = self.snapshot()
        self.load(state)
        with torch.random.fork_rng([self.weights.device] if self.weights.is_cuda else []):
            yield
        self.load(before)

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Put the model in inference mode, without gradients, for a `with` block."""
        before = self._flat.module.training
        set_mode(self._flat.module, training=False)
        with torch.no_grad():
            yield
        set_mode(self._flat.module, training=before)

    def examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and labels of all that the client trains on, a test's batch at a time."""
        parts = zip(*(torch.split(tensor, TEST_BATCH) for tensor in self._held), strict=True)
        return ((convert_to_inputs(images), labels) for images, labels in parts)

    def losses(self, states: Iterable[Tensor | Vector]) -> Tensor:
        """Compute the loss of each example under each state, in inference mode, shape (N, M)."""
        before = self.snapshot()
        losses = []
        with self.inference():
            for state in states:
                self.load(state)
                parts = [task.compute_loss(self.logits(x), y, "none") for x, y in self.examples()]
                losses.append(torch.cat(parts))
        self.load(before)
        return torch.stack(losses, 1)

    def batches(self, share: float = 1.0, batch_size: int | None = None) -> Iterable[tuple[Tensor, Tensor]]:
        """Divide a random part of the images, in a row, into batches, which are made as they are read.

        Raises:
            ValueError: `share` is not in (0, 1], or `batch_size` is less than 1.
        """
        size = self._training.batch_size if batch_size is None else batch_size
        if not 0 < share <= 1 or size < 1:
            raise ValueError(
                f"local.batches(share={share}, batch_size={batch_size}): expected a share in (0, 1], and at "
                "least one image in a batch"
            )
        images, labels = self._held
        count = max(1, int(share * len(labels)))
        if self._own_rng is None:
            self._own_rng = self._moment.make_own_rng()
        begin = int(self._own_rng.integers(len(labels) - count + 1))
        return ImageBatches(
            images[begin : begin + count],
            labels[begin : begin + count],
            size,
            find_smallest_batch(self._flat.module, size),
        )

    def optimizer(self, name: str, learning_rate: float | None = None) -> LocalOptimizer:
        """Build an optimizer of the run's kind for another model, or find the one of this name."""
        if name not in self._own_optimizers:
            training = self._training
            if learning_rate is not None:
                training = training.model_copy(update={"learning_rate": learning_rate})
            memory = self.memory.get(f"{OPTIMIZER}/{name}")
            self._own_optimizers[name] = OwnOptimizer(self._flat, training, memory)
        return self._own_optimizers[name]

    def tensor(self, vector: Vector) -> Tensor:
        """Convert a vector in the layout's order to a tensor like `weights`, (W,), or a snapshot, (P,)."""
        return self._flat.scatter_vector(vector)

    def mask(self, ranges: Iterable[tuple[int, int]]) -> Tensor:
        """Mark the parameters in some ranges of the state vector, bool, shape (W,)."""
        mask = np.zeros(len(self.weights), np.float32)
        for start, stop in ranges:
            mask[start:stop] = 1
        return self.tensor(mask) > 0

    def vector(self, tensor: Tensor) -> Vector:
        """Convert a tensor like `weights`, or a snapshot, to a vector in the layout's order."""
        return self._flat.gather_vector(tensor)

    def logits(self, images: Tensor) -> Tensor:
        """Compute the model's outputs for a batch of inputs."""
        outputs: Tensor = self._flat.module(images)
        return outputs

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the mean standard loss of a batch."""
        return task.compute_loss(logits, labels)

    def gradient(self, loss: Tensor) -> Tensor:
        """Compute the gradient of a scalar with respect to `weights`; the next call overwrites it."""
        self._flat.gradient.zero_()
        # `backward` and not `autograd.grad`: gradients are accumulated straight into the flat tensor.
        loss.backward()  # type: ignore[no-untyped-call]
        return self._flat.gradient

    def predict(self, images: Tensor | None = None) -> np.ndarray:
        """Predict class probabilities in inference mode; by default of the reference images."""
        images = self._reference if images is None else images
        if images is None:
            raise ValueError("there are no reference images: set split.reference_images")
        if self._held[1].is_floating_point():
            raise ValueError("there are no class probabilities: the data set has numbers to predict")
        with self.inference():
            return predict_probabilities(self._flat.module, images)

    def step(self, images: Tensor, labels: Tensor, steps: LocalSteps) -> Tensor:
        """Train on one batch by the hooks of `steps`; give the batch's logits before the step."""
        logits = self.logits(images)
        loss = check_loss(steps, steps.loss(self, logits, labels))
        penalty = steps.penalty(logits, labels, images)
        gradient = self.gradient(loss if penalty is None else loss + check_penalty(steps, penalty))
        steps.correct(self.weights, gradient)
        # The optimizer steps on all parameters, then frozen ones are put back: its moments stay those of
        # plain training.
        if steps.trains is None:
            self.descend(gradient)
        else:
            mask = check_mask(steps, self.weights)
            before = self.weights.clone()
            self.descend(gradient)
            self.weights.copy_(torch.where(mask, self.weights, before))
        return logits.detach()

    def descend(self, gradient: Tensor) -> None:
        """Take one step of the optimizer along a gradient, which may be overwritten."""
        clip_gradients(gradient, self._training.clip_gradient)
        self._optimizer.take_step(self.weights, gradient)

    def optimizer_memory(self) -> Arrays:
        """Read the states of the optimizers, if they are kept and there are any."""
        if not self._training.keep_optimizer_state:
            return {}
        own = {f"{OPTIMIZER}/{name}": each.read_memory() for name, each in self._own_optimizers.items()}
        states = {OPTIMIZER: self._optimizer.read_memory(), **own}
        return {name: state for name, state in states.items() if state is not None}


class OwnOptimizer:
    """An optimizer of the run's kind for a model of a rule's own: a `LocalOptimizer`."""

    def __init__(self, flat: FlatModule, training: LocalTraining, memory: Vector | None) -> None:
        self._training = training
        self._optimizer = OPTIMIZERS[training.optimizer](flat, training, memory)

    def descend(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step along a gradient, which may be overwritten."""
        clip_gradients(gradient, self._training.clip_gradient)
        self._optimizer.take_step(weights, gradient)

    def read_memory(self) -> Vector | None:
        """Read the state, as `LocalResult.memory` has it."""
        return self._optimizer.read_memory()


@torch.enable_grad()
def train_client(
    flat: FlatModule,
    start: Vector,
    images: Tensor,
    labels: Tensor,
    training: LocalTraining,
    rng: np.random.Generator,
    memory: Arrays = NO_ARRAYS,
    *,
    rule: LocalRule = PLAIN,
    payload: Arrays = NO_ARRAYS,
    reference: Tensor | None = None,
    max_steps: int | None = None,
    moment: Moment | None = None,
    num_classes: int | None = None,
    test: Callable[[Logits], Counts] | None = None,
) -> LocalResult:
    """Train from `start` on all images for `training.local_epochs` epochs, or `training.local_steps` steps.

    A last batch of a single image is left out for models with BatchNorm, which has no variance there. Model
    and rule may draw from the global generators, which are seeded here; the caller restores them.

    Args:
        flat: the workspace; its former content is overwritten.
        start: the complete state to start from, shape (P,); only read.
        images: as `ImageSet.images`, images best with channels last, on the module's device.
        labels: as `ImageSet.labels`, on the same device.
        training: the settings.
        rng: draws one permutation of the images in each epoch; children of it draw crops and flips, and what
            the model draws itself, such as dropout.
        memory: `LocalResult.memory` of the client's last round. Default: empty, the optimizer starts fresh.
        rule: hooks into this loop. Default: plain training.
        payload: the rule's arrays. Default: none.
        reference: the server's reference images for rules that predict on them. Default: none.
        max_steps: stop after this many optimizer steps. Default: as `training` says.
        moment: round and purpose of the training. Default: round 1.
        num_classes: number of logits that the rule's hooks must return for each image. Default: any number.
        test: tests the trained model through the rule (`LocalSteps.test`). Default: no test.

    Raises:
        ConfigError: batches of one image for a model with BatchNorm.
    """
    moment = moment or Moment()
    size = training.batch_size
    smallest = find_smallest_batch(flat.module, training.batch_size)
    # Children, so that neither augmentation nor dropout changes the order of the images.
    moves, own = rng.spawn(2)
    max_steps = training.local_steps if max_steps is None else max_steps
    # Seeded once a call: all that model and rule draw follows from this client's generator alone.
    seed_all(str(flat.weights.device), own)
    with rule_context(rule):
        # 1. Load the state, with the client's personal entries in it.
        flat.write_vector(_restore_personal_entries(start, rule, memory))
        if training.buffers == "reset" and not moment.is_adaptation:
            reset_norms(flat.module)
        # 2. Let the rule prepare. Its `start` may change the model, so the parameters are copied after it.
        local = ModelInTraining(flat, (images, labels), training, memory, payload, reference, moment)
        # A last batch of fewer than `smallest` images does not begin.
        begins = range(0, len(labels) - smallest + 1, size)
        local.plan(len(begins), max_steps)
        set_mode(flat.module, training=True)
        steps = check_steps(rule, rule.start(local))
        local.note_start(rule)
        # 3. Train. Logits and labels stay on the device: reading a loss would make the CPU wait for each
        # batch.
        pixels = move_channels_last(images)
        logits: list[Tensor] = []
        targets: list[Tensor] = []
        for epoch_index in range(local.num_epochs):
            local.update_attributes(epoch_index=epoch_index)
            order = torch.from_numpy(rng.permutation(len(labels))).to(labels.device, non_blocking=True)
            moved = draw_moves(len(order), training.augment, moves, order.device)
            for begin, inputs in zip(begins, gather_batches(pixels, order, moved, size), strict=False):
                if len(logits) == local.num_steps:
                    break
                positions = order[begin : begin + size]
                local.update_attributes(positions=positions)
                targets.append(labels.index_select(0, positions))
                outputs = steps.step(local, inputs, targets[-1])
                logits.append(check_logits(steps, "step", outputs, len(positions), num_classes))
        # 4. Collect what the rule returns, and test the model before anything else touches it.
        finished = check_finished(
            rule, steps, steps.finish(local, len(logits)), is_adaptation=moment.is_adaptation
        )
        local.check_tensors(rule)

        def compute_test_logits(inputs: Tensor) -> Tensor:
            """Compute the logits of a test through the rule."""
            return check_logits(steps, "test", steps.test(local, inputs), len(inputs), num_classes)

        tested = None if test is None else test(compute_test_logits)
    model = flat.read_vector()
    return LocalResult(
        model,
        *_compute_running_means(logits, targets, training.local_epochs if max_steps is None else 1),
        steps=len(logits),
        outputs=finished.outputs,
        memory={**local.optimizer_memory(), **_read_personal_entries(model, rule), **finished.memory},
        tested=tested,
        has_own_test=type(steps).test is not LocalSteps.test,
    )


def _restore_personal_entries(start: Vector, rule: LocalRule, memory: Arrays) -> Vector:
    """Put the client's personal entries into the model, once it has any."""
    if PERSONAL not in memory or not rule.personal:
        return start
    lengths = [stop - first for first, stop in rule.personal]
    if memory[PERSONAL].shape != (sum(lengths),):
        raise ValueError(
            f"{len(memory[PERSONAL])} personal entries are remembered, but this model has {sum(lengths)}"
        )
    model = start.copy()
    parts = np.split(memory[PERSONAL], np.cumsum(lengths)[:-1])
    for (first, stop), part in zip(rule.personal, parts, strict=True):
        model[first:stop] = part
    return model


def _read_personal_entries(model: Vector, rule: LocalRule) -> Arrays:
    """Read the personal entries of a model for the client's memory."""
    own = [model[first:stop] for first, stop in rule.personal]
    return {PERSONAL: np.concatenate(own)} if own else {}


def _compute_running_means(
    logits: list[Tensor], labels: list[Tensor], num_epochs: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean loss and accuracy of each epoch from all batches, read back in one go."""
    if not logits:
        return (nan,) * num_epochs, (nan,) * num_epochs
    outputs = torch.cat(logits).double()
    targets = torch.cat(labels)
    losses, hits = task.compute_loss(outputs, targets, "none"), task.find_hits(outputs, targets)
    means = torch.stack([losses, hits.double()]).view(2, num_epochs, -1).mean(dim=2).tolist()
    return tuple(means[0]), tuple(means[1])
