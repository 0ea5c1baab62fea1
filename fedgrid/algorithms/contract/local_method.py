"""Local methods: ways for the clients of any averaging algorithm to train (the setting `local`).

A method is a local rule and, if the rule changes what an update stands for, another mean of the updates. What
the server has to remember for it is stored by client and not by cluster, so that a method works under any
partition.

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
from fedgrid.algorithms.contract.section import Section, build_name_validator

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import State
    from fedgrid.algorithms.contract.orders import Payload
    from fedgrid.algorithms.updates.source import Layout, Vector
    from fedgrid.algorithms.updates.updates import Updates


class LocalMethod(Section, ABC):
    """A way for clients to train and for the server to average their updates: settings with a `name`.

    A plugin lists subclasses in `LOCAL_METHODS`, and a run chooses one by `algorithm.local.name=NAME`. Every
    algorithm that averages has the setting; those with orders of their own give them
    `rule=self.rule(layout)`. A method needs `rule` only; override `means`, `init`, `payloads` and `learn` if
    the server has to do more. A rule that reads features is refused with a model whose entry names no head.

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> class ShrinkingRule(fedgrid.LocalRule):
        ...     decay: float
        ...     def start(self, local):
        ...         local.weights.mul_(1 - self.decay)
        ...         return fedgrid.LocalSteps()
        >>> class Shrinking(fedgrid.LocalMethod):
        ...     name: str = "shrinking"
        ...     decay: float = 0.1
        ...     def rule(self):
        ...         return ShrinkingRule(decay=self.decay)
        >>> Shrinking().rule()
        ShrinkingRule(personal=(), decay=0.1)
    """

    numbers: ClassVar[tuple[OwnNumber, ...]] = ()
    """Numbers of each round: means of the rule's outputs of the same names, over entries and clients."""

    name: str
    """The value of `local.name` that chooses it; a subclass gives it a `Literal` type and a default."""

    @abstractmethod
    def rule(self) -> LocalRule:
        """Build the local rule that every order of a round carries.

        Called by the server once a round, and when a configuration is checked; it returns an equal rule each
        time.
        """

    def means(
        self, updates: Updates, groups: Sequence[Sequence[int]], aggregate: Aggregator = MEAN
    ) -> list[Vector]:
        """Average the updates of each group of clients; one update each, float32, shape (P,).

        Called by the server once a round, by `FedOpt.aggregate`, after `learn`. By default the run's
        aggregator does it. A method that sums in its own way ignores `aggregate`, which is the mean then:
        others are refused.

        Args:
            updates: the usable updates of the round.
            groups: client ids of each cluster, none of them empty.
            aggregate: the aggregator of the run.
        """
        return aggregate.combine_groups(updates, groups)

    def init(self, layout: Layout, num_clients: int) -> Mapping[str, NDArray[Any]]:
        """Build the arrays that the method needs in the state, one row for each client; by default none.

        Called by the server once a run, by `FedOpt.init`.
        """
        return {}

    def payloads(self, state: State) -> Sequence[Payload]:
        """Build the arrays that orders carry for the rule: one mapping for each cluster model, length C.

        Called by the server once a round, by `FedOpt.orders`; a client gets the payload of its cluster. By
        default they are empty. A method with payloads is refused where clients choose their model.
        """
        return [{}] * len(state.models)

    def learn(self, state: State, updates: Updates) -> State:
        """Update the method's arrays in the state by a round's replies.

        Called by the server once a round, by `FedOpt.aggregate`, before `means`. By default the state stays
        as it is. Models then depend on more than means of updates, so that the server's noise is refused
        (`Traits.averages_updates`).
        """
        return state

    def problem(self, training: Mapping[str, Any]) -> str | None:
        """Explain in one line why the method cannot work with the settings of `training`; None if it can.

        Called when a configuration is checked, before anything starts.
        """
        return None


def find_aggregate_problem(local: LocalMethod, aggregate: Aggregator) -> str | None:
    """Explain why an aggregator does not fit a method with sums of its own; None if it does."""
    # Overriding either means sums of its own, which an aggregator never sees.
    has_own_sums = type(local).means is not LocalMethod.means or type(local).learn is not LocalMethod.learn
    return explain_own_sums(local.name, aggregate) if has_own_sums else None


def explain_own_sums(name: str, aggregate: Aggregator) -> str | None:
    """Explain why an algorithm with sums of its own refuses an aggregator; None if that is the mean."""
    if aggregate.is_mean:
        return None
    return (
        f"aggregate = {aggregate.name}: {name} sums up in its own way what clients send; leave aggregate "
        "out, or take other local training, such as fedprox"
    )


def find_refusal(
    local: LocalMethod | None, aggregate: Aggregator, *, averages_models: bool = True
) -> str | None:
    """Explain why an algorithm whose clients choose or change models cannot have `local` or `aggregate`.

    None if it can have both.

    Args:
        local: the method; None: plain training.
        aggregate: the aggregator.
        averages_models: whether the algorithm averages models, not updates, so that the method may only
            change how clients train.
    """
    if averages_models and local is not None and type(local).means is not LocalMethod.means:
        return (
            f"local = {local.name} changes how updates are averaged, but here models are; take one that "
            "changes only how clients train, such as local: {name: fedprox}"
        )
    if averages_models and aggregate.is_for_updates:
        return explain_averaged_models(aggregate, "here")
    return find_payload_refusal(local)


def explain_averaged_models(aggregate: Aggregator, where: str) -> str:
    """Explain why an aggregator of updates does not fit where models are averaged."""
    return (
        f"aggregate = {aggregate.name} shortens vectors towards zero, but {where} models are averaged, not "
        "updates; take another aggregator, such as geometric-median"
    )


def find_payload_refusal(local: LocalMethod | None) -> str | None:
    """Explain why a method does not fit where clients choose their model; None if it does."""
    if local is None or type(local).payloads is LocalMethod.payloads:
        return None
    return (
        f"local = {local.name} needs to know a client's cluster before it trains, but here clients choose "
        "their model or start from another one; take another method, such as local: {name: fedprox}"
    )


class PlainTraining(LocalMethod):
    """Standard training: cross-entropy by the optimizer of `training`, and the plain mean."""

    name: str = "plain"

    def rule(self) -> LocalRule:
        """Return `PLAIN`, the rule that changes nothing."""
        return PLAIN


LOCAL_METHODS: dict[str, type[LocalMethod]] = {}
"""Name -> class of the methods that `local` may name; `averaging.entries` fills it, then plugins do."""


AnyLocalMethod = Annotated[
    SerializeAsAny[LocalMethod] | None,
    build_name_validator("local training", LOCAL_METHODS, "{name: fedprox, mu: 0.01}"),
]
"""The type of a settings field that holds any local method, or none, and survives JSON."""
