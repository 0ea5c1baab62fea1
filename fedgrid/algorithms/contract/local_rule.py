"""Local rules: what an algorithm changes in its clients' training.

The engine has one training loop (`federation.training.local`). A rule is a frozen settings model that travels
with an order; at the client its `start` returns hooks into that loop: the loss, a term added to it, a
correction of the gradient, which entries train, or a whole step. FedProx is the shortest example to read,
SCAFFOLD one with a payload, a memory and an output. Import torch for types only, or in functions: algorithms
are listed and configured without it.

Shapes: N images of a batch, L classes, F features, W entries of a state vector that are parameters, P entries
of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from fedgrid.algorithms.contract.section import Section

if TYPE_CHECKING:
    # Algorithms are listed and configured without torch, which takes seconds to import.
    from torch import Tensor

    from fedgrid.algorithms.updates.source import Layout, Vector


class LocalOptimizer(Protocol):
    """An optimizer of the run's kind for a model of the rule's own, from `LocalModel.optimizer`."""

    def descend(self, weights: Tensor, gradient: Tensor) -> None:
        """Take one step of `weights` along a gradient, both of shape (W,).

        The gradient is clipped first, if the run does so (`training.clip_gradient`), and weight decay is
        added; it may be overwritten.
        """


class LocalModel(Protocol):
    """The client's model during its training, which every hook of a rule gets.

    The engine's training loop implements it. Tensors are on the client's device, in an order of the module's
    own: `tensor` and `vector` translate to and from the order of the layout. Hooks change `weights` in place,
    as by `local.weights.copy_(...)`, and assign to no attribute: that is an error.

    Example:
        >>> import fedgrid
        >>> def pull_back(local: fedgrid.LocalModel, gradient) -> None:
        ...     '''FedProx in one line: add mu (w - w_t) to the gradient.'''
        ...     gradient += 0.01 * (local.weights - local.start)
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> local = SimpleNamespace(weights=np.ones(2), start=np.zeros(2))  # Stands in for a client's model.
        >>> gradient = np.zeros(2)
        >>> pull_back(local, gradient)
        >>> gradient.tolist()
        [0.01, 0.01]
    """

    weights: Tensor
    """The parameters, shape (W,), trained in place. They have no graph: the gradient of a term of them in the
    loss is zero, so that such a term goes into `LocalSteps.correct`."""
    learning_rate: float
    """Learning rate of the run in this round, for a rule whose own steps have the same length."""
    momentum: float
    """Momentum of the run's optimizer; 0 if that has none."""
    layout: Layout
    """Names and shapes of the tensors in a state vector, as `Algorithm.init` gets it."""
    round_index: int
    """The round, from 0, in which the client trains; in an adaptation, the round after which it tests."""
    is_adapting: bool
    """Whether this is an `Adaptation` before a test, of which nothing is sent or remembered."""
    payload: Mapping[str, NDArray[Any]]
    """Arrays of the order (`Order.payload`), or of the adaptation before a test."""
    memory: Mapping[str, NDArray[Any]]
    """Arrays that this client's last training left under names of `LocalRule.remembers`; empty before its
    first."""
    num_steps: int
    """Number of batches of this training, over all epochs; 0 in an adaptation without steps."""
    num_epochs: int
    """Number of passes over the client's images; the last one may be incomplete."""
    epoch_index: int
    """Epoch of the next batch, from 0."""
    positions: Tensor
    """Positions in the client's `examples` of the batch's images, int64, shape (N,)."""

    @property
    def features(self) -> Tensor:
        """Inputs of the model's head (`ModelEntry.head`) in the last forward pass, float32, shape (N, F).

        They are part of the graph of a pass with gradients, so that a penalty on them trains the layers
        below. FedProto's penalty, for example: `(local.features - prototypes[labels]).square().mean()`.

        Raises:
            ValueError: the model's entry names no head (`Conditions.lacks_head` says so before the start), or
                nothing has passed the model yet.
        """

    @property
    def start(self) -> Tensor:
        """The parameters before the first step, after `LocalRule.start`; shape (W,). Only read them."""

    @property
    def reference(self) -> Tensor | None:
        """The server's reference images as inputs, shape (N, channels, height, width); None without any.

        They are converted on each access, all at once: to predict on them, `predict` takes less memory.
        """

    def tensor(self, vector: Vector) -> Tensor:
        """Convert a vector in the layout's order: (W,) to a tensor like `weights`, (P,) to a snapshot.

        The parameters of a snapshot are its first W entries, `snapshot[: len(local.weights)]`.
        """

    def vector(self, tensor: Tensor) -> Vector:
        """Convert a tensor like `weights`, (W,), or a snapshot, (P,), to a vector in the layout's order."""

    def mask(self, ranges: Iterable[tuple[int, int]]) -> Tensor:
        """Mark the parameters in some ranges of the state vector: a bool tensor like `weights`, shape (W,).

        It can be a rule's `LocalSteps.trains`. FedRep and FedBABU mark the head by it.

        Args:
            ranges: start and stop of each, as of `Layout.ranges`; buffers in them are left out.
        """

    def snapshot(self) -> Tensor:
        """Copy the whole state, buffers too, to a tensor of shape (P,), to compute with and to `load`."""

    def load(self, state: Tensor | Vector) -> None:
        """Replace the model's state by a snapshot, or by a vector in the layout's order, both of shape (P,).

        With `own = local.snapshot()`, `local.load(other)` and `local.vector(own)` a rule trains further
        models.
        """

    def substitute(self, state: Tensor | Vector) -> AbstractContextManager[None]:
        """Put another state in place, as by `load`, in the block of a `with`.

        After it the model has the state of before, and torch's generators are where they were: further
        training is as without the block, whatever that draws, such as dropout. Ditto and APFL train a
        client's own model this way.

        Args:
            state: a snapshot, or a vector in the layout's order, shape (P,).
        """

    def inference(self) -> AbstractContextManager[None]:
        """Put the model in inference mode without gradients, in the block of a `with`.

        BatchNorm and dropout then act as in a test.
        """

    def examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield inputs and labels of everything that the client trains on, in its order and not augmented.

        One batch of a test at a time: inputs (N, channels, height, width), labels (N,).
        """

    def losses(self, states: Iterable[Tensor | Vector]) -> Tensor:
        """Compute the loss of each of the client's `examples` under several states, in inference mode.

        The model keeps its own state. FedEM and FedSoft weigh models by these losses.

        Args:
            states: M snapshots, or vectors in the layout's order, shape (P,) each.

        Returns:
            The standard losses, without a graph, shape (N, M).
        """

    def batches(self, share: float = 1.0, batch_size: int | None = None) -> Iterable[tuple[Tensor, Tensor]]:
        """Divide a random part of what the client trains on into batches, for steps of the rule's own.

        The part is images in a row, in the client's order and not augmented; each call draws another one.
        The draws depend on run, client and round alone: a test draws as the client's training in the round
        after it, and the batches of the training itself stay as they are. A last batch that is too small for
        the model (one image, with BatchNorm) is left out.

        Args:
            share: share of the images, in (0, 1], rounded down, and at least one.
            batch_size: images in a batch; None: the run's `training.batch_size`.

        Returns:
            Pairs of inputs, shape (N, channels, height, width), and labels, shape (N,). They are made as they
            are read, and can be read several times.
        """

    def optimizer(self, name: str, learning_rate: float | None = None) -> LocalOptimizer:
        """Build an optimizer of the run's kind for another model, as a client's personal one.

        It has the momentum, weight decay and clipping of `training`. If the run keeps the state of
        optimizers (`training.keep_optimizer_state`), its state is kept under the name too.

        Args:
            name: name of the model; the same name gives the same optimizer during a training.
            learning_rate: its learning rate; None: that of the run in this round.
        """

    def logits(self, images: Tensor) -> Tensor:
        """Compute the model's outputs, shape (N, L), for inputs of shape (N, channels, height, width)."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the mean standard loss of a batch: cross-entropy of classes, squared error of numbers."""

    def gradient(self, loss: Tensor) -> Tensor:
        """Compute the gradient of a scalar with respect to `weights`, shape (W,).

        The next call overwrites it.
        """

    def predict(self, images: Tensor | None = None) -> NDArray[Any]:
        """Predict class probabilities in inference mode, float32, shape (N, L).

        Args:
            images: inputs, shape (N, channels, height, width); None: the reference images, which are
                converted a batch at a time.

        Raises:
            ValueError: there are no reference images, or the data set has numbers to predict.
        """

    def step(self, images: Tensor, labels: Tensor, steps: LocalSteps) -> Tensor:
        """Train on one batch with the run's optimizer and a rule's hooks.

        The order is: forward pass, `LocalSteps.loss`, `LocalSteps.penalty`, gradient, `LocalSteps.correct`,
        then `descend`.

        Args:
            images: inputs, shape (N, channels, height, width).
            labels: classes, or numbers to predict, shape (N,).
            steps: the hooks.

        Returns:
            The logits before the step, shape (N, L), without a graph.

        Raises:
            ValueError: `LocalSteps.loss` returned no scalar with a graph.
        """

    def descend(self, gradient: Tensor) -> None:
        """Take one step of the run's optimizer along a gradient, shape (W,), which may be overwritten.

        The gradient is clipped first, if the run does so (`training.clip_gradient`).
        """


@dataclass(frozen=True)
class Finished:
    """The arrays that a client's training leaves in addition to its update.

    `LocalSteps.finish` returns it. `outputs` has all names that the rule declares, `memory` may leave some
    out, and the values are NumPy arrays of real numbers; otherwise the run fails with a line that says so.

    Args:
        outputs: arrays for the server, under the names of `LocalRule.outputs`.
        memory: arrays for the client's next training, under names of `LocalRule.remembers`. A name that is
            left out is forgotten.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> finished = fedgrid.Finished(outputs={"distance": np.array([0.5], np.float32)})
        >>> sorted(finished.outputs), dict(finished.memory)
        (['distance'], {})
    """

    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays for the server, under the names of `LocalRule.outputs`."""
    memory: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays for the client's next training, under names of `LocalRule.remembers`; one that is left out is
    forgotten."""


class LocalSteps:
    """The hooks of one client's training in one round; these change nothing.

    A rule returns a subclass that overrides some of them.

    `LocalRule.start` returns an instance for each training of a client, so that it may hold tensors of this
    training; nothing of it lasts longer. A plugin's hooks have no `rng`: the generators of torch, NumPy and
    Python are seeded by run, round and client before `start`, and restored after `finish`.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> class Halved(fedgrid.LocalSteps):
        ...     '''Halves each gradient, and reports the number of steps.'''
        ...     def correct(self, weights, gradient):
        ...         gradient *= 0.5
        ...     def finish(self, local, num_steps):
        ...         return fedgrid.Finished({"steps": np.array([num_steps])})
        >>> gradient = np.ones(2)  # A tensor in a run.
        >>> Halved().correct(np.zeros(2), gradient)
        >>> gradient.tolist()
        [0.5, 0.5]
    """

    trains: Tensor | None = None
    """Mask of the parameters that train, bool, shape (W,); None: all. The others keep their values, but the
    optimizer's moments of them are updated all the same."""

    def step(self, local: LocalModel, images: Tensor, labels: Tensor) -> Tensor:
        """Train on one batch.

        Called by the training loop once for each batch. By default it is `local.step`, which calls the other
        hooks; a rule that overrides it calls them itself, or not at all.

        Args:
            local: the model in training.
            images: inputs of the batch, shape (N, channels, height, width).
            labels: classes, int64, or numbers to predict, shape (N,).

        Returns:
            The logits of the batch, shape (N, L), without a graph; training loss and accuracy of the records
            are computed from them.
        """
        return local.step(images, labels, self)

    def loss(self, local: LocalModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of a batch that the client's training descends. Label smoothing, for example:

            return functional.cross_entropy(logits, labels, label_smoothing=0.1)

        Called by `LocalModel.step` once a batch, after the forward pass; a rule with a whole step of its own
        calls it itself, or not at all. By default it is `local.loss`. Recorded losses, of training and of
        tests, and the choice among candidates stay `local.loss`, so that methods can be compared.

        A term of the parameters, such as FedProx's pull, goes into `correct`: `local.weights` has no graph.

        Args:
            local: the model in training, for example for `local.features` and `local.positions`.
            logits: the model's outputs with their graph, shape (N, L); (N, 1) of numbers to predict.
            labels: the classes, int64, or the numbers, floating; shape (N,).

        Returns:
            A scalar with a graph.
        """
        return local.loss(logits, labels)

    def penalty(self, logits: Tensor, labels: Tensor, images: Tensor) -> Tensor | None:
        """Compute a term that is added to the batch's `loss`, a scalar with a graph; None: nothing is added.

        Called by `LocalModel.step` once a batch, after `loss`. It can be a function of the logits, or of
        `features` of a model that `LocalRule.start` handed to the hooks.

        Args:
            logits: the model's outputs with their graph, shape (N, L).
            labels: the classes or the numbers of the batch, shape (N,).
            images: inputs of the batch, shape (N, channels, height, width).
        """
        return None

    def correct(self, weights: Tensor, gradient: Tensor) -> None:
        """Change the gradient in place, before it is clipped, and before weight decay and the optimizer.

        Called by `LocalModel.step` once a batch, after the backward pass. FedProx, for example:
        `gradient.add_(weights - start, alpha=mu)`.

        Args:
            weights: the parameters, shape (W,), only read.
            gradient: the gradient of loss and penalty, shape (W,).
        """

    def test(self, local: LocalModel, images: Tensor) -> Tensor:
        """Compute the logits, shape (N, L), by which a client that has adapted its model is tested.

        Called in inference mode after `finish`, once a batch of the client's own test images, and only in an
        `Adaptation` (`Served.adaptation`). FedEM overrides it by its mixture, FedProto by the nearest
        prototype. The server's images test the served models as they are, and the analysis `explain` refuses
        a run with such a test.

        Args:
            local: the model after the adaptation.
            images: inputs, shape (N, channels, height, width).
        """
        return local.logits(images)

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Collect outputs for the server and memory for the client's next training.

        Called by the training loop once, after the last batch. It may still change the model, whose state
        then is the client's update.

        Args:
            local: the model after training.
            num_steps: number of batches that were trained on.

        Returns:
            Arrays under all names that the rule declares as `outputs`, and under those of `remembers` that
            the client is to have in its next training; empty by default. Nothing is sent of an adaptation,
            so that its outputs may be left out.
        """
        return Finished()


class LocalRule(Section):
    """A rule by which a client trains: frozen settings that travel with an order. This one changes
    nothing.

    Subclasses add settings and override `start`. A rule is part of the round cache's key: by its settings, by
    the source code of its module, and by what that imports from fedgrid. Other files of yours do not count,
    so keep a rule in its plugin's file. Import torch for types only, or in functions: algorithms are listed
    and configured without it. An algorithm whose clients train by a rule of its own cannot train them
    stacked: it derives its settings from `OwnRuleSettings`, or sets `trains_plainly=False` in its traits.

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> class NoisyStart(fedgrid.LocalRule):
        ...     '''Moves the weights a little before each training.'''
        ...     size: float
        ...     def start(self, local):
        ...         import torch
        ...         local.weights.add_(self.size * torch.randn_like(local.weights))
        ...         return fedgrid.LocalSteps()
        >>> fedgrid.Order(0, (0,), rule=NoisyStart(size=0.1)).rule.size
        0.1
    """

    outputs: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that a reply carries in addition to its update; the server gets them by
    `updates.outputs(name)`, `updates.derived` and `updates.means(groups, output=name)`. Float32 ones pass
    through the steps of the uplink as updates do, unless they are `public`."""
    public: ClassVar[tuple[str, ...]] = ()
    """Names in `outputs` that reveal only the number of images, which the server has anyway: they are sent
    without the uplink's steps."""
    remembers: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays that the client gets back in its next training (`LocalModel.memory`). They are
    stored with the run, as is the optimizer's state, so that a retry repeats the same bits. A client whose
    update is unusable keeps its old ones."""
    sees_features: ClassVar[bool] = False
    """Whether it reads `LocalModel.features`: a run with such a rule as `local` is refused if its model has
    no head."""
    is_cached: ClassVar[bool] = True
    """Whether rounds in which clients train by it are in the round cache. False where clients remember whole
    models (85 MB each of a ResNet-34), which no other run needs: the run's state has them alone."""

    personal: tuple[tuple[int, int], ...] = ()
    """Ranges, start and stop, of the state vector that belong to the client. Before it trains or adapts a
    model it puts its own entries there, and it remembers them after training. In its update they are 0, and
    they do not travel."""

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client's training; it may overwrite `local.weights` first.

        Called at the client by the training loop, once for each order before the first batch, and once for
        each `Adaptation` before a test. It must not write to `local.start`.
        """
        return LocalSteps()


PLAIN = LocalRule()
"""The rule that changes nothing: the standard loss, and the optimizer of `training`.

Example:
    >>> import fedgrid
    >>> fedgrid.Order(0, (0,)).rule is fedgrid.PLAIN
    True
"""
