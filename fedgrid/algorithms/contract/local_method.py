"""The setting `local` of an averaging algorithm: another way for its clients to train.

A method is a local rule and, where the rule changes what an update stands for, another mean of the updates.
What the server must know about each client for it, it keeps by client and not by cluster, so that it works
under any partition.

Shapes: C cluster models, P entries of a state vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from numpy.typing import NDArray
from pydantic import SerializeAsAny

from fedgrid.algorithms.contract.aggregator import MEAN, Aggregator
from fedgrid.algorithms.contract.entry import OwnNumber
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.contract.section import Section, by_name

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import State
    from fedgrid.algorithms.contract.orders import Payload
    from fedgrid.algorithms.updates.source import Layout, Vector
    from fedgrid.algorithms.updates.updates import Updates


class LocalMethod(Section, ABC):
    """How clients train and how their updates are averaged: a frozen settings model with a `name`."""

    numbers: ClassVar[tuple[OwnNumber, ...]] = ()
    """Numbers of each round: means of the rule's outputs of the same names."""

    name: str

    @abstractmethod
    def rule(self) -> LocalRule:
        """Return the rule of every order."""

    def means(
        self, updates: Updates, groups: Sequence[Sequence[int]], aggregate: Aggregator = MEAN
    ) -> list[Vector]:
        """Return one update for each group of clients, float32, shape (P,).

        One that sums in its own way leaves `aggregate` alone, which is the mean then (`aggregate_problem`).
        """
        return aggregate.of(updates, groups)

    def init(self, layout: Layout, num_clients: int) -> Mapping[str, NDArray[Any]]:
        """Return what it keeps in the state's arrays, one row a client."""
        return {}

    def payloads(self, state: State) -> Sequence[Payload]:
        """Return for each cluster model what its members' orders carry for the rule, length C."""
        return [{}] * len(state.models)

    def learn(self, state: State, updates: Updates) -> State:
        """Return the state with what it keeps brought up to date by a round's replies."""
        return state

    def problem(self, training: Mapping[str, Any]) -> str | None:
        """Return in one line why it cannot work with these settings of `training`; None if it can."""
        return None


def aggregate_problem(local: LocalMethod, aggregate: Aggregator) -> str | None:
    """Return why an aggregator does not fit a method with sums of its own; None if it does."""
    has_own_sums = type(local).means is not LocalMethod.means or type(local).learn is not LocalMethod.learn
    return own_sums_problem(local.name, aggregate) if has_own_sums else None


def own_sums_problem(name: str, aggregate: Aggregator) -> str | None:
    """Return why an algorithm that sums in its own way refuses another aggregator; None if it is the mean."""
    if aggregate.is_mean:
        return None
    return (
        f"aggregate = {aggregate.name}: {name} sums up in its own way what clients send; leave aggregate "
        "out, or take other local training, such as fedprox"
    )


def refusal(local: LocalMethod | None, *, averages_models: bool = True) -> str | None:
    """Return why an algorithm whose clients choose or change models cannot have `local`, None if it can.

    `averages_models`: whether it averages models, not updates, so that a method's rule has to be all of it.
    """
    if averages_models and local is not None and type(local).means is not LocalMethod.means:
        return (
            f"local = {local.name} changes how updates are averaged, but here models are; take one that "
            "changes only how clients train, such as local: {name: fedprox}"
        )
    return one_model_each(local)


def one_model_each(local: LocalMethod | None) -> str | None:
    """Return why a method does not fit where the server does not know which model a client will train."""
    if local is None or type(local).payloads is LocalMethod.payloads:
        return None
    return (
        f"local = {local.name} needs to know a client's cluster before it trains, but here clients choose "
        "their model or start from another one; take another method, such as local: {name: fedprox}"
    )


class PlainTraining(LocalMethod):
    """Cross-entropy by the optimizer of `training`, and the plain mean."""

    name: str = "plain"

    def rule(self) -> LocalRule:
        """Return the rule that changes nothing."""
        return PLAIN


LOCAL_METHODS: dict[str, type[LocalMethod]] = {}
"""What `local` may name; `averaging.entries` fills it."""


AnyLocalMethod = Annotated[
    SerializeAsAny[LocalMethod] | None,
    by_name("local training", LOCAL_METHODS, "{name: fedprox, mu: 0.01}"),
]
"""A settings field that holds any of them, or none, and survives JSON."""
