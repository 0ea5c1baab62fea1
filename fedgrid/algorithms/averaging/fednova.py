"""FedNova: clients that take more steps, or longer ones, do not count more for it.

Source: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization,
NeurIPS 2020, arXiv:2007.07481, equation 7. An update is a sum of gradients whose weights add up to a_i.
Updates are divided by a_i before the mean, which is then multiplied by tau_eff = sum p_i a_i; p_i are the
run's `weights`. For tau steps of plain SGD a_i is tau, with momentum rho [tau - rho (1 - rho^tau) / (1 -
rho)] / (1 - rho), with FedProx's pull [1 - (1 - eta mu)^tau] / (eta mu): the recursion in
`compute_normaliser` computes all of them. BatchNorm's buffers are no sums of gradients and take the plain
mean. Weight decay is part of the gradient.

Shapes: W entries of a state vector that are parameters, P entries of the whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from fedgrid.algorithms.averaging.fedopt import FedOpt, OwnRuleSettings
from fedgrid.algorithms.averaging.fedprox import Mu, ProximalRule
from fedgrid.algorithms.contract.aggregator import MEAN, Aggregator
from fedgrid.algorithms.contract.local_method import LocalMethod
from fedgrid.algorithms.contract.local_rule import Finished, LocalModel, LocalRule, LocalSteps
from fedgrid.algorithms.updates.source import Vector
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""@inproceedings{wang2020tackling,
  author = {Wang, Jianyu and Liu, Qinghua and Liang, Hao and Joshi, Gauri and Poor, H. Vincent},
  title = {Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020},
  eprint = {2007.07481},
  archiveprefix = {arXiv}
}"""

NORMALISER = "normaliser"
"""Name of a reply's a_i, float32, shape (1,)."""


class NormalisedRule(ProximalRule):
    """Local rule that counts a_i, and pulls as FedProx does if mu is above 0."""

    outputs: ClassVar[tuple[str, ...]] = (NORMALISER,)
    public: ClassVar[tuple[str, ...]] = (NORMALISER,)

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks."""
        return _NormalisedSteps(super().start(local) if self.mu else LocalSteps(), self.mu)


class _NormalisedSteps(LocalSteps):
    """Hooks that count; the gradient is corrected as FedProx does."""

    def __init__(self, pull: LocalSteps, mu: float) -> None:
        self._mu = mu
        # The instance's attribute hides the class's method; without a pull it is the one that changes
        # nothing.
        self.correct = pull.correct  # type: ignore[method-assign]

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Report a_i for the steps that were taken."""
        weight = compute_normaliser(num_steps, local.learning_rate, local.momentum, self._mu)
        return Finished({NORMALISER: np.array([weight], np.float32)})


def compute_normaliser(num_steps: int, learning_rate: float, momentum: float, mu: float) -> float:
    """Compute a_i: the sum of the gradients' weights in an update of these steps, over the learning rate.

    Args:
        num_steps: optimizer steps of the client.
        learning_rate: eta.
        momentum: rho; 0 is plain SGD.
        mu: FedProx's pull; 0 is none.
    """
    # The same steps as those of the optimizer, on the weight of a gradient in place of the gradient.
    velocity = moved = 0.0
    for _ in range(num_steps):
        velocity = momentum * velocity + 1 - learning_rate * mu * moved
        moved += velocity
    return moved


class NormalisedTraining(LocalMethod):
    """Updates are normalised before the mean within each cluster: `local: {name: fednova}`.

    Clusterers see the updates as they were sent. Refused where models are averaged and not updates:
    communities without `late`, FLIS-DC, `flis-hc` with `variant: neighbours`.
    """

    name: Literal["fednova"] = "fednova"
    mu: Mu = 0.0
    """Strength of FedProx's pull, as the local solver; 0 is plain SGD."""

    def rule(self) -> LocalRule:
        """Build the rule that counts."""
        return NormalisedRule(mu=self.mu)

    def means(
        self, updates: Updates, groups: Sequence[Sequence[int]], aggregate: Aggregator = MEAN
    ) -> list[Vector]:
        """Compute tau_eff times the mean of the normalised updates; the plain mean if all a_i are equal."""
        replies = updates.derived(NORMALISER, "all", lambda outputs: {"a_K": np.concatenate(outputs)})
        steps = dict(zip(updates.clients, replies["a_K"].tolist(), strict=True))
        # Only groups with different a_i need the scaled mean.
        unequal = [place for place, group in enumerate(groups) if len({steps[c] for c in group}) > 1]
        means = self._plain_means(updates, groups, unequal)
        shares = updates.weights or dict.fromkeys(updates.clients, 1.0)
        # A client that took no step has an update of zero, and nothing to divide it by.
        inverse = {client: shares[client] / steps[client] for client in updates.clients if steps[client]}
        moved = [[client for client in groups[place] if client in inverse] for place in unequal]
        parameters = slice(updates.layout.num_parameters)
        for place, members, scaled_P in zip(unequal, moved, updates.means(moved, inverse), strict=True):
            # With p_i = shares / total: tau_eff = sum p_i a_i, and the mean of u_i / a_i, which
            # `updates.means` divided by the sum of its own weights.
            total = sum(shares[client] for client in groups[place])
            effective = sum(shares[client] * steps[client] for client in members) / total
            scale = effective * sum(inverse[client] for client in members) / total
            mean_P = means.get(place, scaled_P).copy()
            mean_P[parameters] = np.float32(scale) * scaled_P[parameters]
            means[place] = mean_P
        return [means[place] for place in range(len(groups))]

    def _plain_means(
        self, updates: Updates, groups: Sequence[Sequence[int]], unequal: Sequence[int]
    ) -> dict[int, Vector]:
        """Compute, by place, the plain means that are needed: of groups with equal a_i, and for buffers.

        Under the server's noise each mean that is taken costs privacy; models with buffers have none.
        """
        has_buffers = updates.layout.size > updates.layout.num_parameters
        places = [place for place in range(len(groups)) if has_buffers or place not in unequal]
        return dict(zip(places, updates.means([groups[place] for place in places]), strict=True))

    def problem(self, training: Mapping[str, Any]) -> str | None:
        """Explain the conflict: an update of another optimizer, or of an older momentum, is no such sum."""
        # Adam divides by running squares: an update is no weighted sum of gradients, so there is no a_i.
        if training["optimizer"] != "sgd":
            return (
                f"training.optimizer = {training['optimizer']}: FedNova counts steps of sgd, with or without "
                "momentum, as an adaptive optimizer's updates are no sums of gradients; set optimizer: sgd"
            )
        if training["momentum"] and training["keep_optimizer_state"]:
            return (
                "training.keep_optimizer_state = true: FedNova takes momentum to start from zero in each "
                "round; leave it out, or set momentum: 0"
            )
        return None


class FedNovaSettings(OwnRuleSettings):
    """Settings of FedNova: those of FedOpt, and FedProx's pull."""

    mu: Mu = 0.0
    """Strength of FedProx's pull, as the local solver; 0 is plain SGD."""


class FedNova(FedOpt):
    """FedOpt over normalised updates.

    Sends: As FedAvg, and a_i beside the update: four bytes.

    Degenerate cases:

    - If all clients of a mean have the same a_i, as in balanced scenarios, it is BNC, to the byte.
    - Adam is refused, as its updates are no sums of gradients; so is momentum that is kept between rounds.
    """

    settings: FedNovaSettings

    @property
    def local(self) -> LocalMethod:
        """The local method that normalises updates."""
        return NormalisedTraining(mu=self.settings.mu)
