"""FedOpt: average each cluster's updates and let a server optimizer take the step.

Source: Reddi et al., Adaptive Federated Optimization, ICLR 2021, arXiv:2003.00295, Algorithms 1 and 2
(FedAdagrad, FedYogi, FedAdam); Hsu et al. 2019, arXiv:1909.06335 (FedAvgM). Without an optimizer and with
learning rate 1 it is the federated averaging that the OCFL papers call FedOpt and report as the baseline
(BNC). The second moment starts at tau^2, the least that Algorithm 2 allows; there is no bias correction.

Shapes: K clients of the federation, C cluster models, P entries of a state vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedgrid.algorithms.clustering.latecomers import place_latecomers
from fedgrid.algorithms.contract.aggregator import MEAN, AnyAggregator
from fedgrid.algorithms.contract.base import (
    Algorithm,
    Diagnostics,
    Fresh,
    Settings,
    State,
    StepResult,
    Traits,
)
from fedgrid.algorithms.contract.checks import check_step
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import (
    AnyLocalMethod,
    LocalMethod,
    PlainTraining,
    find_aggregate_problem,
)
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.contract.orders import Adaptation, Order, Presence, Served
from fedgrid.algorithms.contract.section import Condition
from fedgrid.algorithms.updates.source import Layout, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates

FineTuningSteps = Annotated[int, Field(ge=0, le=1_000_000)]
"""Number of optimizer steps before a test; more than a million are a typing error."""
FIRST_MOMENT, SECOND_MOMENT = "cluster_first", "cluster_second"
"""Names of the optimizer's moments in the state, float32, shape (C, P) each."""
MOMENTS = {
    "none": (),
    "momentum": (FIRST_MOMENT,),
    "adagrad": (FIRST_MOMENT, SECOND_MOMENT),
    "adam": (FIRST_MOMENT, SECOND_MOMENT),
    "yogi": (FIRST_MOMENT, SECOND_MOMENT),
}
"""Server optimizer -> the arrays of moments that it needs in the state."""
DEFAULT_RATES = {"none": 1.0, "momentum": 1.0, "adagrad": 0.1, "adam": 0.01, "yogi": 0.01}
"""Server optimizer -> default of `server_learning_rate`. The direction of an adaptive optimizer has entries
of about 1, whatever the size of an update's."""

ACTS_WITH: Mapping[str, Condition] = {
    "server_momentum": Condition(
        lambda given: given.server_optimizer != "none", "a server_optimizer other than none"
    ),
    "server_beta2": Condition(
        lambda given: given.server_optimizer in ("adam", "yogi"), "server_optimizer adam or yogi"
    ),
    "server_epsilon": Condition(
        lambda given: SECOND_MOMENT in MOMENTS[given.server_optimizer],
        "server_optimizer adagrad, adam or yogi",
    ),
}
"""The server's keys -> the condition under which they have an effect."""


class FedOptSettings(Settings):
    """Settings of every averaging algorithm; the defaults are plain averaging.

    Args:
        server_optimizer: optimizer by which the server steps along the mean update; `none` steps by it, times
            the learning rate.
        server_learning_rate: eta: the step is eta times the optimizer's direction.
        server_momentum: beta_1, of every optimizer but none.
        server_beta2: beta_2, of adam and yogi.
        server_epsilon: tau, of adagrad, adam and yogi: the degree of adaptivity; far larger than in local
            training.
        local: local method, by which clients train, for example `{name: fedprox, mu: 0.01}`; None: plain
            training.
        fine_tune: steps of the run's optimizer, a batch each, that a client takes on its training images from
            the model that it is served, before it is tested on its own test images.
        aggregate: aggregator of the updates of a cluster's clients, or of their models where these are
            averaged: `mean`, or a robust one, such as `median` (docs/robust.md).

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> fedgrid.FedOptSettings(server_optimizer="adam").server_learning_rate
        0.01
        >>> fedgrid.FedOptSettings(aggregate="median").aggregate
        Median(name='median')
    """

    server_optimizer: Literal["none", "momentum", "adagrad", "adam", "yogi"] = "none"
    """Optimizer by which the server steps along the mean update; `none` steps by it, times the learning
    rate."""
    server_learning_rate: Annotated[float, Field(gt=0)] = Field(
        # `server_optimizer` stands above: pydantic passes the fields that it has validated so far.
        default_factory=lambda given: DEFAULT_RATES[given.get("server_optimizer", "none")]
    )
    """eta: the step is eta times the optimizer's direction. The default follows the optimizer: 1 with none
    and momentum, 0.1 with adagrad, 0.01 with adam and yogi."""
    server_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """beta_1, of every optimizer but none."""
    server_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """beta_2, of adam and yogi."""
    server_epsilon: Annotated[float, Field(gt=0)] = 1e-3
    """tau, of adagrad, adam and yogi: the degree of adaptivity; far larger than in local training."""
    local: AnyLocalMethod = None
    """Local method, by which clients train, for example `{name: fedprox, mu: 0.01}`; None: plain training."""

    fine_tune: FineTuningSteps = 0
    """Steps of the run's optimizer, a batch each, that a client takes on its training images from the model
    that it is served, before it is tested on its own test images. Nothing of it is sent."""

    aggregate: AnyAggregator = MEAN
    """Aggregator of the updates of a cluster's clients, or of their models where these are averaged: `mean`,
    or a robust one, such as `median` (docs/robust.md). What an algorithm tests or clusters by stays as it
    is."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("local", "fine_tune", "aggregate")
    acts_with: ClassVar[Mapping[str, Condition]] = ACTS_WITH


class OwnRuleSettings(FedOptSettings):
    """Settings of an averaging algorithm whose clients train by a rule of the algorithm's own.

    The algorithm overrides `FedOpt.rule`. The setting `local` is refused, and clients are not trained
    stacked.

    Raises:
        ValueError: `local` is set, a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> class LabelSmoothingSettings(fedgrid.OwnRuleSettings):
        ...     smoothing: float = 0.1
        >>> LabelSmoothingSettings().smoothing
        0.1
        >>> class LabelSmoothing(fedgrid.FedOpt):
        ...     settings: LabelSmoothingSettings
        >>> LabelSmoothing(LabelSmoothingSettings()).traits.trains_plainly
        False
    """

    @model_validator(mode="after")
    def _has_its_rule(self) -> Self:
        """Refuse `local`: clients train by one rule."""
        if self.local is not None:
            raise ValueError(
                f"local = {self.local.name}: clients already train by this algorithm's own rule; leave it "
                "out, or use it with another algorithm, such as fedavg"
            )
        return self


class OwnAdaptationSettings(OwnRuleSettings):
    """Settings of an averaging algorithm that defines itself what a client does with its model before a test.

    The settings `local` and `fine_tune` are refused. Unless the algorithm overrides `FedOpt.fine_tuning`, its
    rule puts the tested model together, without training steps.

    Raises:
        ValueError: `local` or `fine_tune` is set, a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> class HeadSettings(fedgrid.OwnAdaptationSettings):
        ...     adapt_steps: int = 5
        >>> HeadSettings(adapt_steps=1).adapt_steps
        1
    """

    @model_validator(mode="after")
    def _adapts_itself(self) -> Self:
        """Refuse `fine_tune`: the algorithm has an adaptation of its own."""
        if self.fine_tune:
            raise ValueError(
                f"fine_tune = {self.fine_tune}: this algorithm defines what clients do before a test; "
                "leave it out, or use it with another algorithm, such as fedavg"
            )
        return self


class FedOpt(Algorithm):
    """Federated averaging in clusters; one step is `recluster`, then `aggregate`.

    Clustered algorithms override `recluster` only. This class leaves every client in one cluster.

    With x a cluster's model, D the mean of its updates by the run's `weights` (or what `aggregate` makes of
    them), eta `server_learning_rate`, b1 `server_momentum`, b2 `server_beta2` and tau `server_epsilon`, the
    server's step is

    - `none`: x += eta D
    - `momentum`: m = b1 m + D; x += eta m
    - `adagrad`: m = b1 m + (1 - b1) D; v = v + D^2; x += eta m / (sqrt(v) + tau)
    - `yogi`: as `adagrad`, but v = v - (1 - b2) D^2 sign(v - D^2)
    - `adam`: as `adagrad`, but v = b2 v + (1 - b2) D^2

    BatchNorm's buffers take D under any optimizer. The default rates of `adam` and `yogi` are for deep
    networks; a small one wants larger ones, such as 0.1.

    Sends: A sampled client gets its cluster's model and returns its update: four bytes an entry each way,
    before the `uplink`.

    Degenerate cases:

    - A cluster without a usable update keeps its model and its moments; a new cluster starts with those of
      its parent.
    - A round in which every sampled client drops out changes nothing, and warns. If clients reply and every
      update is NaN or infinite, the run fails and keeps its last state.
    - An update with NaN or infinities is left out, and counted in the column `excluded`.

    Absent clients: Every client that arrives trains and counts.

    Memory: The optimizer's moments `cluster_first` and `cluster_second`, float32, shape (C, P).

    Raises:
        AttributeError: a hook sets an attribute of the algorithm.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> class SignSplit(fedgrid.FedOpt):
        ...     '''Splits in round 2: clients whose first entry grows, and the others.'''
        ...     def recluster(self, state, round_index, updates, rng):
        ...         if round_index != 1:
        ...             return state, fedgrid.Diagnostics()
        ...         labels = np.array([vector[0] > 0 for vector in updates.vectors()], np.int64)
        ...         state = fedgrid.split_by_labels(state, updates, labels)
        ...         return state, fedgrid.Diagnostics(clustered=True)
        >>> algorithm = SignSplit(fedgrid.FedOptSettings())
        >>> layout, rng = fedgrid.Layout(("weight",), ((1,),), 1), np.random.default_rng(0)
        >>> state = algorithm.init(layout, 3, lambda number: np.zeros(1, np.float32), rng)
        >>> updates = fedgrid.Updates({0: np.float32([2]), 1: np.float32([-1]), 2: np.float32([4])}, layout)
        >>> state, report = algorithm.step(state, 1, updates, rng)
        >>> state.labels_K.tolist(), [model.tolist() for model in state.models]
        ([0, 1, 0], [[3.0], [-1.0]])
    """

    settings: FedOptSettings
    """Frozen settings, of this class or of one derived from it."""

    @property
    def local(self) -> LocalMethod:
        """The local method of the setting `local`; plain training without one."""
        return self.settings.local or PlainTraining()

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm, from its settings.

        It averages updates, unless `aggregate` does not or the server learns from other outputs of the
        replies. Clients train plainly, unless the algorithm has a rule, or `local` has one.
        """
        return Traits(
            averages_updates=type(self.local).learn is LocalMethod.learn and self.settings.aggregate.is_mean,
            trains_plainly=not isinstance(self.settings, OwnRuleSettings) and self.local.rule() == PLAIN,
        )

    def start_order_key(self) -> tuple[float, ...]:
        """Return infinity for FedAvg itself, which never deviates.

        An algorithm that derives from it deviates from round 1 on, unless it overrides this.
        """
        return (inf,) if type(self) is FedOpt else super().start_order_key()

    def problem(self, conditions: Conditions) -> str | None:
        """Explain a conflict of `local`, `aggregate` and the clients' training; None if there is none.

        Called when a configuration is checked. An algorithm that overrides it ends with `return
        super().problem(conditions)`.
        """
        return find_aggregate_problem(self.local, self.settings.aggregate) or self.local.problem(
            conditions.training
        )

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state of one cluster that holds every client, with the optimizer's first moments.

        Called by the server once a run; an algorithm that needs arrays of its own adds them:
        `super().init(layout, num_clients, fresh, rng).keep(name=array)`.

        Args:
            layout: names and shapes of the tensors in a state vector of P entries.
            num_clients: K.
            fresh: draws initial models; `fresh(0)` is the one for all.
            rng: not used here.
        """
        # The second moment starts at tau^2, the least that Algorithm 2 of the paper allows.
        starts = {FIRST_MOMENT: 0.0, SECOND_MOMENT: self.settings.server_epsilon**2}
        arrays = {
            name: np.full((1, layout.size), starts[name], np.float32)
            for name in MOMENTS[self.settings.server_optimizer]
        }
        arrays |= self.local.init(layout, num_clients)
        return State((fresh(0),), np.zeros(num_clients, np.int64), arrays)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client its cluster's model, with the `rule` and the payload of `local`.

        Called by the server once a round.

        Args:
            state: the state so far.
            round_index: the round, from 0; not used here.
            present: the clients that were sampled.
            layout: names and shapes of the tensors in a state vector.
            rng: not used here.
        """
        rule = self.rule(layout)
        payloads = self.local.payloads(state)
        cluster_of = dict(enumerate(state.labels_K.tolist()))
        return [
            Order(client, (cluster_of[client],), rule=rule, payload=payloads[cluster_of[client]])
            for client in present.sampled
        ]

    def rule(self, layout: Layout) -> LocalRule:
        """Build the local rule of every order; by default that of `local`.

        Called by `orders` once a round, and by `fine_tuning` where clients adapt by it. An algorithm that
        overrides it derives its settings from `OwnRuleSettings`, or from `OwnAdaptationSettings`.

        Args:
            layout: names and shapes of the tensors in a state vector, by which a rule finds its entries.
        """
        return self.local.rule()

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Place latecomers, choose the partition of this round, then average the updates within it.

        Called by the server once a round; it calls `recluster` and `aggregate`, and checks what the former
        returns.

        Args:
            state: the state that the round began with.
            round_index: the round, from 0.
            updates: the usable updates of this round, at least one.
            rng: seeded by the run and the round.

        Raises:
            BrokenContract: `recluster` returned no pair of a state and diagnostics, or labels of models that
                do not exist.
        """
        # 1. Latecomers first: their updates started from a model that their cluster has left behind, so they
        # must be in no partition and in no mean.
        state, updates, placed = place_latecomers(state, updates)
        # 2. The partition, by the updates of this round.
        clustered = self.recluster(state, round_index, updates, rng)
        state, diagnostics = check_step(self, "recluster", clustered, len(state.labels_K))
        # 3. The means within the new partition. Reasons for places come last: an algorithm may add its own.
        return self.aggregate(state, updates, rng), replace(
            diagnostics, placed={**placed, **diagnostics.placed}
        )

    def place(self, state: State, updates: Updates) -> State:
        """Let a held-out client join the nearest part of a split, at which it was absent."""
        return place_latecomers(state, updates)[0]

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its cluster's model, after `fine_tuning`."""
        return replace(super().served(state, layout), adaptation=self.fine_tuning(state, layout))

    def fine_tuning(self, state: State, layout: Layout) -> Adaptation | None:
        """Choose what each client does with the model that it is served, before a test; None: nothing.

        Called by `served`, in each round whose models are tested. By default `fine_tune` steps of the run's
        optimizer; with `OwnAdaptationSettings` the algorithm's `rule`, without steps.

        Args:
            state: the state after the round.
            layout: names and shapes of the tensors in a state vector.
        """
        if isinstance(self.settings, OwnAdaptationSettings):
            return Adaptation(self.rule(layout))
        return Adaptation(steps=self.settings.fine_tune) if self.settings.fine_tune else None

    def global_model(self, state: State) -> Vector | None:
        """Return the only model; None once there are several."""
        return state.models[0] if len(state.models) == 1 else None

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Choose the partition of this round; here it stays as it is.

        Called by `step` once a round, before the updates are averaged, with latecomers already placed. Split
        clusters with `split`, `split_positions` or `split_by_labels`; clients that are in none of the groups
        because they sent no usable update join the largest. What is returned is checked: a state, whose
        labels are positions of its models, and diagnostics.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            updates: the usable updates of this round, without those of latecomers.
            rng: seeded by the run and the round.

        Returns:
            The state with the new partition, and the report of the round: `Diagnostics(clustered=True)` if a
            partition was chosen.
        """
        return state, Diagnostics()

    def aggregate(self, state: State, updates: Updates, rng: Rng) -> State:
        """Move each cluster's model by the mean of its members' updates, or by their `aggregate`.

        Called by `step` once a round, after `recluster`. A cluster without usable updates keeps its model and
        its moments. Buffers (BatchNorm statistics and counters) take that mean whatever the optimizer: they
        are measurements, not weights. The server's noise is in the means already.

        Args:
            state: the state with the partition of this round.
            updates: the usable updates, without those of latecomers.
            rng: for aggregators and subclasses that draw; the mean does not.

        Returns:
            The state with the new models and moments.
        """
        # Copies, because the arrays of a state are read-only.
        models = list(state.models)
        moments = {name: state.arrays[name].copy() for name in MOMENTS[self.settings.server_optimizer]}
        parameters = slice(updates.layout.num_parameters)
        # Before the means: a method's means may need what it has learned from these replies.
        state = self.local.learn(state, updates)
        groups = updates.groups(state.labels_K)
        aggregate = self.settings.aggregate.seed_round(rng)
        means = self.local.means(updates, list(groups.values()), aggregate)
        for cluster, mean_P in zip(groups, means, strict=True):
            model_P = state.models[cluster]
            direction = self._compute_direction(
                mean_P[parameters], [array[cluster, parameters] for array in moments.values()]
            )
            # Buffers take the mean; the parameters are overwritten by the optimizer's step.
            moved_P = model_P + mean_P
            moved_P[parameters] = model_P[parameters] + self.settings.server_learning_rate * direction
            models[cluster] = moved_P
        return replace(state, models=tuple(models)).keep(**moments)

    def _compute_direction(self, mean: Vector, moments: list[Vector]) -> Vector:
        """Compute the direction of the server's step; update `moments` in place (copies of this round)."""
        beta1 = self.settings.server_momentum
        if self.settings.server_optimizer == "none":
            return mean
        if self.settings.server_optimizer == "momentum":
            (first,) = moments
            first *= beta1
            first += mean
            return first
        # The moments are updated in place: they are copies, and a further vector of this length would cost
        # memory.
        first, second = moments
        first *= beta1
        first += (1 - beta1) * mean
        self._accumulate_squares(second, mean**2)
        return np.divide(first, np.sqrt(second) + np.float32(self.settings.server_epsilon))

    def _accumulate_squares(self, second: Vector, squares: Vector) -> None:
        """Add squares to the second moment, in place."""
        beta2 = self.settings.server_beta2
        match self.settings.server_optimizer:
            case "adagrad":
                second += squares
            case "yogi":
                # Unlike adam's, this step does not grow with v, so that v cannot shrink fast.
                second -= (1 - beta2) * squares * np.sign(second - squares)
            case _:
                second *= beta2
                second += (1 - beta2) * squares


def build_server_conditions(holds: Callable[[Any], bool], words: str) -> dict[str, Condition]:
    """Build the `acts_with` of algorithms whose server takes a step only if a condition holds."""
    keys = ("server_optimizer", "server_learning_rate", *ACTS_WITH)
    return dict.fromkeys(keys, Condition(holds, words))


def select_moving(updates: Updates) -> Updates:
    """Select the updates that are not zero: a zero update has no direction."""
    return updates.select(np.asarray(updates.clients)[updates.norms_K > 0].tolist())
