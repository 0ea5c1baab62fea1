"""A local rule: what an algorithm changes in its clients' training.

The engine has one training loop (`federation.training.local`). A rule is a frozen settings model that travels
with an order; at the client its `start` returns hooks into that loop: the loss, a term added to it, a
correction of the gradient, which entries train, or a whole step. FedProx and SCAFFOLD are the examples to
read.

Shapes: W entries of a state vector that are parameters, P entries of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from fedgrid.algorithms.contract.section import Section

if TYPE_CHECKING:
    # Algorithms are listed and configured without torch, which takes seconds to import.
    from torch import Tensor

    from fedgrid.algorithms.updates.source import Vector


class LocalModel(Protocol):
    """The client's model during its training. Tensors are on its device, in an order of the module's own."""

    weights: Tensor
    """The parameters, shape (W,); trained in place. They have no graph: the gradient of a loss's term of them
    is zero, so that such a term goes into `LocalSteps.correct`."""
    learning_rate: float
    """The run's in this round; for a rule whose own steps are as long."""
    momentum: float
    """0 with an optimizer that has none."""
    payload: Mapping[str, NDArray[Any]]
    """The arrays of the order."""
    memory: Mapping[str, NDArray[Any]]
    """What this client's last training left under the names of `LocalRule.remembers`."""
    num_steps: int
    """How many batches this training has, over all epochs."""
    num_epochs: int
    """How many times it goes through the client's images, the last time perhaps not to their end."""
    epoch_index: int
    """The epoch that the next batch is of, from 0."""
    positions: Tensor
    """Which of the client's `examples` the batch holds, int64, shape (N,)."""

    @property
    def features(self) -> Tensor:
        """What went into the model's head (`ModelEntry.head`) in the last forward pass, shape (N, F).

        Float32, and part of the graph of a pass with gradients.

        Raises:
            ValueError: the model's entry names no head; `Conditions.lacks_head` says so before the start.
        """

    @property
    def start(self) -> Tensor:
        """The parameters before the first step, shape (W,)."""

    @property
    def reference(self) -> Tensor | None:
        """The server's reference images as inputs, shape (N, channels, height, width); None without any.

        They are made each time, all at once: to predict on them, `predict` takes less memory.
        """

    def tensor(self, vector: Vector) -> Tensor:
        """Return a vector in the layout's order, shape (W,) or (P,), as a tensor like `weights`."""

    def vector(self, tensor: Tensor) -> Vector:
        """Return a tensor like `weights`, (W,), or a snapshot, (P,), as a vector in the layout's order."""

    def snapshot(self) -> Tensor:
        """Return a copy of the whole state, buffers too, shape (P,), to compute with and to `load`."""

    def load(self, state: Tensor | Vector) -> None:
        """Put a snapshot, or a vector in the layout's order, both of shape (P,), in the model's place."""

    def inference(self) -> AbstractContextManager[None]:
        """Have the model in inference mode, and no gradients, in the block of a `with`."""

    def examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and classes of all that the client trains on, in its order and not augmented.

        A test's batch at a time: inputs (N, channels, height, width), classes (N,).
        """

    def logits(self, images: Tensor) -> Tensor:
        """Return the model's outputs, shape (N, L), for inputs of shape (N, channels, height, width)."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean standard loss of a batch: cross-entropy of classes, squared error of numbers."""

    def gradient(self, loss: Tensor) -> Tensor:
        """Return a scalar's gradient with respect to `weights`, shape (W,); the next call overwrites it."""

    def predict(self, images: Tensor | None = None) -> NDArray[Any]:
        """Return the class probabilities of inputs in inference mode, float32, shape (N, L).

        None: of the reference images, which are converted a batch at a time.

        Raises:
            ValueError: there are none, or numbers are predicted.
        """

    def step(self, images: Tensor, labels: Tensor, steps: LocalSteps) -> Tensor:
        """Train on one batch with the run's optimizer; return the logits before the step, shape (N, L)."""

    def descend(self, gradient: Tensor) -> None:
        """Take one step of the run's optimizer along a gradient, shape (W,), which may be overwritten."""


@dataclass(frozen=True)
class Finished:
    """What a client's training leaves behind beside its update."""

    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays for the server, under the names of `LocalRule.outputs`."""
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays for the client's next training, under the names of `LocalRule.remembers`."""


class LocalSteps:
    """The hooks of one client's training in one round. These change nothing; rules override some of them."""

    trains: Tensor | None = None
    """Which parameters train, bool, shape (W,); None: all. The others keep their values; the optimizer's
    moments of them are updated all the same."""

    def step(self, local: LocalModel, images: Tensor, labels: Tensor) -> Tensor:
        """Train on one batch, inputs (N, channels, height, width) and classes (N,); return logits (N, L)."""
        return local.step(images, labels, self)

    def loss(self, local: LocalModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch that the client's training descends, as label smoothing:

            return functional.cross_entropy(logits, labels, label_smoothing=0.1)

        `LocalModel.step` calls it once a batch, after the forward pass; a rule with a whole step of its own
        calls it itself, or not at all. By default it is `local.loss`. Recorded losses, of training and of
        tests, and the choice among candidates stay `local.loss`, so that methods can be compared.

        A term of the parameters, as FedProx's pull, goes into `correct`: `local.weights` has no graph.

        Args:
            local: the model in training, as for `local.features` and `local.positions`.
            logits: the model's outputs with their graph, shape (N, L); (N, 1) of numbers to predict.
            labels: the classes, int64, or the numbers, floating; shape (N,).

        Returns:
            A scalar with a graph.
        """
        return local.loss(logits, labels)

    def penalty(self, logits: Tensor, labels: Tensor, images: Tensor) -> Tensor | None:
        """Return what is added to the batch's `loss`, a scalar; None: nothing."""
        return None

    def correct(self, weights: Tensor, gradient: Tensor) -> None:
        """Change the gradient in place, before weight decay and the optimizer; both of shape (W,)."""

    def test(self, local: LocalModel, images: Tensor) -> Tensor:
        """Return the logits, shape (N, L), by which a client that has adapted its model is tested on inputs.

        Called in inference mode, after `finish`, a batch at a time.
        """
        return local.logits(images)

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Return outputs and memory after the last of `num_steps` optimizer steps."""
        return Finished()


class LocalRule(Section):
    """How a client trains. This one changes nothing: the standard loss, and the optimizer of `training`.

    Subclasses add settings and override `start`. A rule's source code is part of the round cache's key.
    """

    outputs: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that a reply carries beside its update. Float32 ones take the uplink's steps."""
    public: ClassVar[tuple[str, ...]] = ()
    """Those of `outputs` that reveal only the number of images, which the server knows: sent as they are."""
    remembers: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that the client is handed again in its next training."""
    sees_features: ClassVar[bool] = False
    """Whether it reads `LocalModel.features`: as a value of `local` it is then refused without a head."""
    is_cached: ClassVar[bool] = True
    """Whether rounds in which clients train by it are in the round cache. False where clients remember whole
    models, which no other run needs: they are in the run's state alone."""

    personal: tuple[tuple[int, int], ...] = ()
    """Ranges, start and stop, of the state vector that belong to the client: it puts its own entries in their
    place before it trains or adapts a model, and remembers them after training. In its update they are 0."""

    def start(self, local: LocalModel) -> LocalSteps:
        """Return the hooks of one client's training. May overwrite `local.weights` first."""
        return LocalSteps()


PLAIN = LocalRule()
