"""What a server sends to its clients in a round, and what it has them say and test.

Shapes: K clients of the federation, P entries of a state vector.
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
"""Of a float32."""
Payload = Mapping[str, NDArray[Any]]
ChooseOn = Literal["train", "batch", "test", "reference"]
"""A client's training images, the first batch of the round, its *test* images, or the server's reference
images. A choice on test images has seen what the client is scored on."""
ChooseBy = Literal["loss", "accuracy"]
PREDICTIONS = "predictions"
"""The output of an order with `infer`: class probabilities, float32, shape (M, L), M reference images."""
LOSSES = "losses"
"""The output of an order with `losses`: float32, one a candidate."""


@dataclass(frozen=True)
class Presence:
    """Which clients an algorithm may give orders to in a round."""

    joined: tuple[int, ...]
    """Those that have joined the federation, ascending."""
    sampled: tuple[int, ...]
    """The share of them that `participation` draws for this round, ascending."""
    participation: float = 1.0
    """The share, in (0, 1]: for algorithms that sample by a rule of their own."""


@dataclass(frozen=True)
class Order:
    """What one client is to do in a round."""

    client: int
    candidates: tuple[int, ...]
    """Positions in `State.models`. The client trains the one with the least loss; ties go to the first."""
    choose_on: ChooseOn = "train"
    """What that loss is of; `reference` needs `split.reference_images`."""
    choose_by: ChooseBy = "loss"
    """`accuracy`: the client trains the candidate with the highest accuracy instead."""
    infer: bool = False
    """Whether the server has the model that it receives predict the classes of its reference images. The
    predictions are the reply's output `PREDICTIONS`. They are the server's own work, so nothing is sent."""
    rule: LocalRule = PLAIN
    payload: Payload = field(default_factory=dict)
    """Arrays for the rule. Those that several orders share are sent once."""
    losses: bool = False
    """Whether the reply has each candidate's mean loss on what is chosen on, as its output `LOSSES`."""

    def __post_init__(self) -> None:
        """Check the choice among the candidates."""
        _check_choices(self)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays that come beside the update: the rule's, predictions, and losses."""
        asked = {PREDICTIONS: self.infer, LOSSES: self.losses}
        return (*self.rule.outputs, *(name for name, is_asked in asked.items() if is_asked))

    @property
    def tells_fit(self) -> bool:
        """Whether the reply tells how candidates fit the client's own images: by its choice or by losses."""
        return self.choose_on != "reference" and (len(self.candidates) > 1 or self.losses)


@dataclass(frozen=True)
class Traffic:
    """Bytes of an order."""

    down: int
    up: int | None = None
    """None: as measured at the client (its update and the reply's outputs, as the uplink encodes them)."""


@dataclass(frozen=True)
class Adaptation:
    """What a client does to a model before it tests it on its own test set."""

    rule: LocalRule = PLAIN
    steps: int = 0
    """Optimizer steps on its training images; with 0 the rule's `start` alone, which may put personal entries
    from the client's memory in place."""
    payload: Payload = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """Which model each client is tested with; apart from the partition, which is scored."""

    models: tuple[Vector, ...]
    """Each float32, shape (P,)."""
    model_K: NDArray[np.int64]
    """For each client the position of its model in `models`."""
    adaptation: Adaptation | None = None
    choosing: frozenset[int] = frozenset()
    """Clients that are tested with the best of all `models`, which they choose as for an order."""
    choose_on: ChooseOn = "train"
    choose_by: ChooseBy = "loss"

    def __post_init__(self) -> None:
        """Check the choice among the models."""
        _check_choices(self)


def _check_choices(of: Order | Served) -> None:
    """Check how clients are to choose among models: another word would silently count as one of these."""
    for name, choices in (("choose_on", get_args(ChooseOn)), ("choose_by", get_args(ChooseBy))):
        if (given := getattr(of, name)) not in choices:
            near = "".join(f"did you mean '{word}'? " for word in get_close_matches(str(given), choices, 1))
            raise ValueError(f"unknown {name} {given!r}; {near}known: {', '.join(choices)}")


class Message(Section):
    """What a client says about its data, once, before its first round: a frozen settings model.

    It is computed where the data are; only its arrays travel.
    """

    takes: ClassVar[tuple[str, ...]] = ("pixels", "numbers", "tokens")
    """What kinds of examples it can describe (`Inputs.kind`); with an encoder it is pixels."""

    encoder: EncoderSettings | None = None
    """What encodes the images first; None: nothing does."""
    round_index: int = 0
    """The round, from 0, before which it is sent; the engine fills it in: a client's data may change."""

    @property
    def draws_anew(self) -> bool:
        """Whether its random numbers are others in each round; else a client has the same ones every time."""
        return False

    def squared_distance(self, payload: Payload, scale: float, *, again: bool) -> float:
        """Return how far a client can move what it has said, squared, in standard deviations of its noise.

        Infinite, as here, if no noise covers it.

        Args:
            payload: the arrays.
            scale: in clips, how far the data of one client can move what is clipped.
            again: whether the client has sent such a message before.
        """
        return inf

    @abstractmethod
    def describe(self, images: Tensor, labels: Tensor, num_classes: int, rng: Rng) -> Payload:
        """Return arrays that describe a client's training images.

        Args:
            images: on the client's device; uint8, shape (N, channels, height, width), 0..255, if they are
                pixels, else numbers or tokens. With an `encoder` their codes, float32, shape (N, Z).
            labels: int64, shape (N,), 0..L-1.
            num_classes: L, of the whole data set.
            rng: seeded by (run, client), and by the round too if it `draws_anew`.
        """
