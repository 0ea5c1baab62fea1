"""What travels between server and clients: orders, replies, messages, and the models that are tested.

Shapes: K clients of the federation, N images of a client, L classes, P entries of a state vector.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.encoder import EncoderSettings
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.updates.source import Rng, Vector

if TYPE_CHECKING:
    from torch import Tensor

BYTES_PER_ENTRY = 4
"""Bytes of a float32."""
Payload = Mapping[str, NDArray[Any]]
"""Name -> a NumPy array of any dtype and shape: what an order, a message or an adaptation carries.

Example:
    >>> import fedgrid
    >>> import numpy as np
    >>> payload: fedgrid.Payload = {"prototypes": np.zeros((10, 64), np.float32)}
"""
ChooseOn = Literal["train", "batch", "test", "reference"]
"""Images by which a client chooses among candidates: its training images, the first batch of the round, its
*test* images, or the server's reference images. A choice on test images has seen what the client is scored
on."""
ChooseBy = Literal["loss", "accuracy"]
"""Measure by which a client chooses: the least loss or the highest accuracy."""
PREDICTIONS = "predictions"
"""Name of the output of an order with `infer`: class probabilities, float32, shape (M, L) for M reference
images."""
LOSSES = "losses"
"""Name of the output of an order with `losses`: float32, one for each candidate."""


@dataclass(frozen=True)
class Presence:
    """The clients that an algorithm may give orders to in a round.

    The server passes it to `Algorithm.orders`.

    Args:
        joined: ids of the clients that have joined the federation, ascending.
        sampled: ids of those that `participation` draws for this round, ascending.
        participation: share that is sampled, in (0, 1]; for algorithms that sample in their own way.

    Example:
        >>> import fedgrid
        >>> present = fedgrid.Presence(joined=(0, 1, 2, 5), sampled=(1, 5), participation=0.5)
        >>> len(present.sampled) / len(present.joined)
        0.5
    """

    joined: tuple[int, ...]
    """Ids of the clients that have joined the federation, ascending."""
    sampled: tuple[int, ...]
    """Ids of those that `participation` draws for this round, ascending."""
    participation: float = 1.0
    """Share that is sampled, in (0, 1]; for algorithms that sample in their own way."""


@dataclass(frozen=True)
class Order:
    """The work of one client in a round.

    `Algorithm.orders` returns them. The client trains one of the candidate models by the rule, and replies
    with its update: the model after training minus the model before. If there are several candidates, it
    trains the one that fits its data best, and `Updates.chosen` has its choice.

    Args:
        client: id of the client, a plain int: the round cache has no digest of NumPy's.
        candidates: positions in `State.models`.
        choose_on: images on which the candidates are compared; `reference` needs `split.reference_images`.
        choose_by: measure of the comparison; with `accuracy` the client trains the candidate with the highest
            accuracy.
        infer: whether the server predicts the classes of its reference images with the model that it
            receives.
        rule: the local rule by which the client trains.
        payload: arrays for the rule (`LocalModel.payload`).
        losses: whether the reply has the mean loss of each candidate, on the images of the choice, as its
            output `losses`, float32, one for each candidate, by which a server can weigh them.
        steps: number of optimizer steps, a batch each; None: as `training` says; 0: the client only answers.

    Raises:
        ValueError: `choose_on` or `choose_by` is none of the allowed words, or `steps` is negative.

    Example:
        >>> import fedgrid
        >>> order = fedgrid.Order(3, candidates=(0, 1), choose_on="batch", losses=True)
        >>> order.outputs
        ('losses',)
    """

    client: int
    """Id of the client, a plain int: the round cache has no digest of NumPy's."""
    candidates: tuple[int, ...]
    """Positions in `State.models`. The client trains the model with the least loss; ties go to the first."""
    choose_on: ChooseOn = "train"
    """Images on which the candidates are compared; `reference` needs `split.reference_images`."""
    choose_by: ChooseBy = "loss"
    """Measure of the comparison; with `accuracy` the client trains the candidate with the highest
    accuracy."""
    infer: bool = False
    """Whether the server predicts the classes of its reference images with the model that it receives. The
    predictions are the reply's output `predictions`. They are the server's own work, so nothing is sent."""
    rule: LocalRule = PLAIN
    """The local rule by which the client trains."""
    payload: Payload = field(default_factory=dict)
    """Arrays for the rule (`LocalModel.payload`). Arrays that several orders share are sent once."""
    losses: bool = False
    """Whether the reply has the mean loss of each candidate, on the images of the choice, as its output
    `losses`, float32, one for each candidate, by which a server can weigh them. No noise covers these
    numbers."""
    steps: int | None = None
    """Number of optimizer steps, a batch each; None: as `training` says. With 0 the client only answers: the
    rule's `start` and `finish` are called, its outputs are sent, and its update is zero and costs no byte.
    An algorithm that gives such orders sets `trains_plainly=False` in its traits."""

    def __post_init__(self) -> None:
        """Check the choice among the candidates, and the number of steps."""
        _check_choices(self)
        if self.steps is not None and self.steps < 0:
            raise ValueError(f"steps = {self.steps}: expected 0 or more, or None for those of the run")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays that come in addition to the update: the rule's, predictions, and losses."""
        optional = {PREDICTIONS: self.infer, LOSSES: self.losses}
        return (*self.rule.outputs, *(name for name, is_sent in optional.items() if is_sent))

    @property
    def reveals_fit(self) -> bool:
        """Whether the reply reveals how candidates fit the client's images: by its choice or by losses."""
        return self.choose_on != "reference" and (len(self.candidates) > 1 or self.losses)


@dataclass(frozen=True)
class Traffic:
    """Bytes of an order.

    `Algorithm.traffic` returns it; sums are the columns `bytes_down` and `bytes_up` of the records.

    Args:
        down: bytes that the client receives.
        up: bytes that the client sends; None: as measured at the client (its update and the reply's outputs,
            as the uplink encodes them).

    Example:
        >>> import fedgrid
        >>> fedgrid.Traffic(down=4000).up is None
        True
    """

    down: int
    """Bytes that the client receives."""
    up: int | None = None
    """Bytes that the client sends; None: as measured at the client (its update and the reply's outputs, as
    the uplink encodes them)."""


@dataclass(frozen=True)
class Adaptation:
    """The steps that a client takes with a model before it tests it on its own test images.

    `Served.adaptation` has it. The server's images test the served models without it.

    Args:
        rule: the local rule by which the client adapts the model.
        steps: number of optimizer steps on its training images.
        payload: arrays for the rule (`LocalModel.payload`).

    Example:
        >>> import fedgrid
        >>> fedgrid.Adaptation(steps=10).rule is fedgrid.PLAIN
        True
    """

    rule: LocalRule = PLAIN
    """The local rule by which the client adapts the model."""
    steps: int = 0
    """Number of optimizer steps on its training images. With 0 only the rule's `start` and `finish` are
    called, and personal entries from the client's memory are put in place."""
    payload: Payload = field(default_factory=dict)
    """Arrays for the rule (`LocalModel.payload`)."""


@dataclass(frozen=True)
class Served:
    """The model that each client is tested with.

    `Algorithm.served` returns it. It is independent of the partition: `State.labels_K` is scored against the
    hidden groups, these models are tested.

    Args:
        models: models to test, each float32, shape (P,).
        model_K: position in `models` of each client's model, integers, shape (K,).
        adaptation: steps that every client takes with its model before its test; None: none.
        choosing: clients that are tested with the best of all `models`, which they choose as for an order.
        choose_on: images on which these clients compare the models.
        choose_by: measure of their comparison.

    Raises:
        ValueError: `choose_on` or `choose_by` is none of the allowed words.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> models = (np.zeros(2, np.float32), np.ones(2, np.float32))
        >>> served = fedgrid.Served(models, np.array([0, 1, 1]), fedgrid.Adaptation(steps=5))
        >>> served.models[served.model_K[2]].tolist()
        [1.0, 1.0]
    """

    models: tuple[Vector, ...]
    """Models to test, each float32, shape (P,)."""
    model_K: NDArray[np.int64]
    """Position in `models` of each client's model, integers, shape (K,)."""
    adaptation: Adaptation | None = None
    """Steps that every client takes with its model before its test; None: none."""
    choosing: frozenset[int] = frozenset()
    """Clients that are tested with the best of all `models`, which they choose as for an order."""
    choose_on: ChooseOn = "train"
    """Images on which these clients compare the models."""
    choose_by: ChooseBy = "loss"
    """Measure of their comparison."""

    def __post_init__(self) -> None:
        """Check the choice among the models."""
        _check_choices(self)


def _check_choices(item: Order | Served) -> None:
    """Check the words for a client's choice among models: an unknown one would silently count as another."""
    for name, choices in (("choose_on", get_args(ChooseOn)), ("choose_by", get_args(ChooseBy))):
        if (given := getattr(item, name)) not in choices:
            near = "".join(f"did you mean '{word}'? " for word in get_close_matches(str(given), choices, 1))
            raise ValueError(f"unknown {name} {given!r}; {near}known: {', '.join(choices)}")


class Message(Section):
    """A message of a client about its data before its first round: a frozen settings model.

    `Algorithm.message` returns it. It is computed where the data are, and only its arrays travel. An
    algorithm with a message gets them in `Algorithm.meet`.

    Args:
        encoder: the encoder that turns images into codes first; None: none does.
        round_index: the round, from 0, before which the message is sent; the engine sets it, as a client's
            data may change.

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> class ClassShares(fedgrid.Message):
        ...     '''The share of a client's examples that is of each class.'''
        ...     def describe(self, images, labels, num_classes, rng):
        ...         return {"shares": np.bincount(labels.tolist(), minlength=num_classes) / len(labels)}
        >>> images = np.zeros((4, 1, 2, 2), np.uint8)  # Tensors in a run.
        >>> labels = np.array([0, 0, 0, 2])
        >>> payload = ClassShares().describe(images, labels, 3, np.random.default_rng(0))
        >>> payload["shares"].tolist()
        [0.75, 0.0, 0.25]
    """

    takes: ClassVar[tuple[str, ...]] = ("pixels", "numbers", "tokens")
    """Kinds of examples that it can describe (`Inputs.kind`); with an encoder it is pixels. A run on other
    data is refused."""

    encoder: EncoderSettings | None = None
    """The encoder that turns images into codes first; None: none does."""
    round_index: int = 0
    """The round, from 0, before which the message is sent; the engine sets it, as a client's data may
    change."""

    @property
    def draws_each_round(self) -> bool:
        """Whether the message draws other random numbers in each round.

        If not, a client draws the same ones every time, so that they cover no second message.
        """
        return False

    def squared_distance(self, payload: Payload, scale: float, *, again: bool) -> float:
        """Measure how far one client's data can move its message, squared, in deviations of its noise.

        Called by the server for each message, where privacy is counted (`privacy`). Infinite, the default, if
        no noise covers the message.

        Args:
            payload: the arrays that were sent.
            scale: how far the data of one client can move what is clipped, in clips.
            again: whether the client has sent such a message before.
        """
        return inf

    @abstractmethod
    def describe(self, images: Tensor, labels: Tensor, num_classes: int, rng: Rng) -> Payload:
        """Describe a client's training images by named arrays, which are sent.

        Called at the client, once before its first round, and again in rounds for which
        `Algorithm.meets_again` is true. It must return a dict of names and NumPy arrays; something else fails
        the run.

        Args:
            images: on the client's device; uint8, shape (N, channels, height, width), 0..255, if they are
                pixels, otherwise numbers or tokens. With an `encoder` their codes, float32, shape (N, Z).
            labels: int64, shape (N,), 0..L-1.
            num_classes: L, of the whole data set.
            rng: seeded by (run, client), and by the round too if it `draws_each_round`.

        Returns:
            Name -> array.
        """
