"""The messages between the server and its clients in a round: plain data, cheap to send.

Shapes: P entries of a state vector, of which W are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from fedgrid.algorithms.contract.orders import Adaptation, ChooseBy, ChooseOn, Order, Payload
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.clients.process import PeakMemory
from fedgrid.engine.federation.data.images import ChannelStatistics, HeldImages, ImageSet, ImageView
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.federation.uplink.steps import Uplink

Memory = Mapping[str, NDArray[Any]]
"""What a client gets again in its next round, by name: the optimizer's state, a rule's arrays."""
Memories = Mapping[int, Memory]
"""Memory of each client."""
Models = Sequence[Vector]
"""Models by position, each of shape (P,)."""


@dataclass(frozen=True)
class Moved:
    """The data of a client after it has moved to another hidden group."""

    round_index: int
    """The first round, from 0, in which it holds them."""
    group: int
    """Its new hidden group, from 0."""
    train: HeldImages
    test: HeldImages


@dataclass(frozen=True)
class ClientData:
    """The data of one client, and how it attacks or moves."""

    client: int
    train: HeldImages
    test: HeldImages
    moved: Moved | None = None
    """Its data after it has moved to another hidden group; None: it never does."""
    factor: float = 1.0
    """Factor of the update that it sends; 1 for honest clients."""
    fault: str = ""
    """How it attacks the training, for the records; empty for honest clients."""
    group: str = ""
    """Name of its hidden group in the data set, for the records; empty where the split makes the groups."""

    def select_images(self, round_index: int) -> tuple[HeldImages, HeldImages]:
        """Select the training and test images that it holds in a round, from 0."""
        held = self if self.moved is None or round_index < self.moved.round_index else self.moved
        return held.train, held.test

    def copy_images(self) -> ClientData:
        """Copy its images, to be sent elsewhere without those of other clients.

        Images are views of the pool of all clients; pickled as they are, each would carry that pool along.
        """
        moved = self.moved and replace(
            self.moved, train=_copy_view(self.moved.train), test=_copy_view(self.moved.test)
        )
        return replace(self, train=_copy_view(self.train), test=_copy_view(self.test), moved=moved)


def _copy_view(held: HeldImages) -> ImageSet:
    """Copy images out of the pool that they are a view of; others stay as they are."""
    return held.copy_images() if isinstance(held, ImageView) else held


@dataclass(frozen=True)
class Setup:
    """What clients need to know before a run.

    All of it is part of the round cache's key, by the names of its classes and fields: a change of those
    names empties every cache.
    """

    model: str
    """A key of `federation.models.registry.MODELS`."""
    num_classes: int
    """Number of classes of the complete data set, L."""
    training: LocalTraining
    seed: int
    clients: tuple[ClientData, ...]
    server_set: ImageSet
    server_parts: Mapping[int, slice]
    """Each client's part of the server's test set, for testing served models together; not all have one."""
    reference_set: ImageSet | None = None
    """The server's reference images, which are in no test set; None: it has none."""
    uplink: Uplink = ()
    probabilities: bool = False
    """Whether tests return the models' outputs (`evaluation.probabilities`)."""
    normalised_by: ChannelStatistics | None = None
    """Statistics of the pool, by which models normalise their images; None: they do not."""
    plugins: tuple[str, ...] = ()
    """Digests of the plugins that the run names: a client may need its model or local rule from them."""

    @property
    def inputs(self) -> Inputs:
        """Kind and shape of an example."""
        return self.server_set.inputs


@dataclass(frozen=True)
class ClientDescription:
    """A client's message about its data."""

    payload: Payload
    """The arrays of the message, by name."""
    seconds: float
    """Wall-clock time of encoding and describing its images; for the timings only."""


@dataclass(frozen=True)
class TrainTask:
    """One client's training in one round."""

    order: Order
    round_index: int
    evaluate: bool
    """Whether the locally trained model is tested on the client's own test set."""
    local_server: bool = False
    """Whether it is tested on the server's complete test set."""
    untrained: bool = False
    """Whether the model before its training takes that test, as in the authors' first round."""

    @property
    def client(self) -> int:
        """The client that trains."""
        return self.order.client


@dataclass(frozen=True)
class TrainReport:
    """The numbers of a client's training."""

    client: int
    chosen: int
    """Position of the model that it trained."""
    train_loss: float
    """Running mean cross-entropy of the last local epoch, as the model changes."""
    train_accuracy: float
    """Running accuracy of the last local epoch."""
    update_norm: float
    """Euclidean norm of the update over the whole state, as it was sent."""
    usable: bool
    """Whether every entry of the update, and its squared norm in float32, is finite."""
    local: Counts | None
    """The locally trained model on the client's own test set."""
    local_server: Counts | None
    """The locally trained model, or the one before its training (`TrainTask.untrained`), on the server's test
    set."""
    seconds: float
    """Wall-clock time of training and testing; for the timings only."""
    peak_memory: PeakMemory
    """Peak memory of the process that trained; for the timings only."""
    checksum: int = 0
    """CRC-32 of the update, by which a client that trains again, as on a GPU, is checked for the same
    bits."""
    images: int = 0
    """Number of training images."""
    steps: int = 0
    """Number of steps of the optimizer."""
    bytes_up: int = 0
    """Bytes of what it sent, as the uplink encodes it: the update and the rule's outputs."""
    has_finite_memory: bool = True
    """Whether no array that it remembers has NaN or infinities: a model of its own may diverge alone."""
    epoch_seconds: float = 0.0
    """Wall-clock time of an epoch of its training (of all `local_steps`), without tests; for the timings
    only."""


@dataclass(frozen=True)
class Reply:
    """The result of one client's training."""

    report: TrainReport
    update: Vector
    """Model after minus model before, as the server gets it, shape (P,); with Ray a read-only view of the
    object store."""
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """The arrays named in `Order.outputs`."""
    memory: Memory = field(default_factory=dict)
    """What the client needs in its next round; empty if it remembers nothing."""


@dataclass(frozen=True)
class EvaluateTask:
    """The test of served models at one client."""

    client: int
    own: int | None
    """Position of the client's own model; None: it is not tested on the client's own test set."""
    adaptation: Adaptation | None = None
    """How the client adapts its own model before it tests that on its own test set; None: not at all."""
    round_index: int = 0
    """The round, from 0: clients may hold other images in each."""
    choose_on: ChooseOn | None = None
    """Images on which the client chooses its own model out of all; None: its own is `own`."""
    choose_by: ChooseBy = "loss"


@dataclass(frozen=True)
class EvaluateReport:
    """The served models, as one client tests them."""

    client: int
    own: Counts | None
    """Its own model, adapted if the task says so, on its own test set."""
    server: tuple[Counts, ...]
    """Every model on this client's part of the server's test set, empty without a part; the parts tile the
    set."""
    chosen: int | None = None
    """Position of its own model, if it was to choose one."""


@dataclass(frozen=True)
class RoundTests:
    """The served models, as all clients have tested them."""

    own: Mapping[int, Counts]
    """Each client's own model on its own test set; clients that do not test it are missing."""
    server: tuple[Counts, ...]
    """Every model on the server's test set."""
    chosen: Mapping[int, int]
    """Position of its own model, for each client that chooses one."""
