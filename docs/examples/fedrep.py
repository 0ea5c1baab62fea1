"""FedRep: a common body, and a head of its own for each client.

Source: Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated
Learning, ICML 2021, arXiv:2102.07078, Algorithm 1. In a round a client trains its head under the body that it
was sent, then the body under that head; the server averages the bodies. The model's entry names the head.
Deviation: `training.weight_decay` enters the momentum of the part that is fixed at the time, too.

Shapes: P entries of a state vector, of which W are parameters.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from fedgrid import (
    Adaptation,
    AlgorithmEntry,
    Conditions,
    FedOpt,
    Fresh,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    Order,
    OwnAdaptationSettings,
    Presence,
    Served,
    State,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{collins2021exploiting,
  author = {Collins, Liam and Hassani, Hamed and Mokhtari, Aryan and Shakkottai, Sanjay},
  title = {Exploiting Shared Representations for Personalized Federated Learning},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2021},
  eprint = {2102.07078},
  archiveprefix = {arXiv}
}"""
HEAD = "head"
"""Array of the state with the places of the head in the state vector: rows of start and stop."""


class HeadThenBody(LocalRule):
    """Trains what is `personal` in the first epochs, the rest in the others."""

    head_epochs: int

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        return _HeadThenBody(self, local)


class _HeadThenBody(LocalSteps):
    """Masks of head and body, by which the epochs of one client train."""

    def __init__(self, rule: HeadThenBody, local: LocalModel) -> None:
        head_W = np.zeros(len(local.weights), np.float32)
        for start, stop in rule.personal:
            head_W[start:stop] = 1
        self._head_epochs = rule.head_epochs
        self._head_W = local.tensor(head_W) > 0
        self.trains: Tensor = self._head_W

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take a step of the part whose turn it is; called for each batch."""
        self.trains = self._head_W if local.epoch_index < self._head_epochs else ~self._head_W
        return local.step(images, labels, self)

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Keep the momentum of the other part at zero."""
        gradient.mul_(self.trains)


class FedRepSettings(OwnAdaptationSettings):
    """Number of the local epochs that train the head."""

    head_epochs: Annotated[int, Field(ge=1, strict=True)] = 2
    """First ones of `training.local_epochs`; the others train the body. The authors take 10 of 11."""


class FedRep(FedOpt):
    """FedOpt on the body; each client's head is in its memory."""

    settings: FedRepSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Name the first round that is not plain averaging, by which runs of a grid are sorted."""
        return (1.0,)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a model without a head, and to train no body."""
        if problem := conditions.lacks_head():
            return problem
        given, needed = conditions.training["local_epochs"], self.settings.head_epochs + 1
        if given < needed:
            return (
                f"training.local_epochs = {given} leaves none for the body after head_epochs = {needed - 1}; "
                f"set training.local_epochs to {needed} or more"
            )
        return super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Add to FedOpt's state where the head is."""
        head = np.array(layout.ranges(layout.head_layers))
        return super().init(layout, num_clients, fresh, rng).keep(**{HEAD: head})

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Send each sampled client the body and the rule."""
        return [Order(client, (0,), rule=self._rule(state)) for client in present.sampled]

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its own head on the common body."""
        return replace(super().served(state, layout), adaptation=Adaptation(self._rule(state)))

    def global_model(self, state: State) -> None:
        """Offer no global model: the server has no head, so no whole model."""

    def _rule(self, state: State) -> LocalRule:
        head = tuple(map(tuple, state.arrays[HEAD].tolist()))
        return HeadThenBody(personal=head, head_epochs=self.settings.head_epochs)


ALGORITHMS = [
    AlgorithmEntry(
        name="fedrep",
        title="FedRep",
        summary="a common body, and a head of its own for each client",
        source="Collins et al. 2021, arXiv:2102.07078",
        algorithm=FedRep,
        settings=FedRepSettings(),
        bibtex=BIBTEX,
    )
]
