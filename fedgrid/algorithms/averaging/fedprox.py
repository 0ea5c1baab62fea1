"""FedProx: local training is pulled back to the model that it started from.

Source: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, arXiv:1812.06127, Algorithm
2: the local objective gains (mu / 2) |w - w_t|^2. Deviation: a fixed number of local epochs for all, no
gamma-inexact solutions.

Shapes: W entries of a state vector that are parameters.
"""

from math import inf
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fedgrid.algorithms.averaging.fedopt import FedOpt, OwnRuleSettings
from fedgrid.algorithms.contract.local_method import LocalMethod
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalModel, LocalRule, LocalSteps

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{li2020federated,
  author = {Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and
    Smith, Virginia},
  title = {Federated Optimization in Heterogeneous Networks},
  booktitle = {Proceedings of Machine Learning and Systems (MLSys)},
  year = {2020},
  eprint = {1812.06127},
  archiveprefix = {arXiv}
}"""


Mu = Annotated[float, Field(ge=0)]
"""mu in the paper, which searches {0.001, 0.01, 0.1, 1}; 0 is FedAvg."""


class ProximalRule(LocalRule):
    """Local rule that adds mu (w - w_t) to the gradient."""

    mu: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hook that corrects the gradient."""
        # Read once: each access to `local.start` would copy the weights.
        return _ProximalSteps(self.mu, local.start)


class _ProximalSteps(LocalSteps):
    """Hook that pulls the weights back to their start."""

    def __init__(self, mu: float, start: "Tensor") -> None:
        self._mu = mu
        self._start = start

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Add mu (w - w_t) to the gradient, the derivative of (mu / 2) |w - w_t|^2."""
        gradient.add_(weights - self._start, alpha=self._mu)


class ProximalTraining(LocalMethod):
    """The pull towards the model that the client was sent: `local: {name: fedprox, mu: 0.01}`."""

    name: Literal["fedprox"] = "fedprox"
    mu: Mu = 0.01
    """Strength of the pull towards the model that a round starts from; 0 is FedAvg."""

    def rule(self) -> LocalRule:
        """Build the rule; without a pull the plain one, so that rounds are shared with FedAvg."""
        return ProximalRule(mu=self.mu) if self.mu else PLAIN


class FedProxSettings(OwnRuleSettings):
    """Settings of FedProx: those of FedOpt, and the pull."""

    mu: Mu = 0.01
    """Strength of the pull; the paper searches 0.001, 0.01, 0.1 and 1."""


class FedProx(FedOpt):
    """FedOpt whose clients train by `ProximalRule`.

    Degenerate cases:

    - With `mu: 0` it is BNC, to the byte, and shares BNC's rounds in the cache.
    """

    settings: FedProxSettings

    @property
    def local(self) -> LocalMethod:
        """The local method that pulls."""
        return ProximalTraining(mu=self.settings.mu)

    def start_order_key(self) -> tuple[float, ...]:
        """Deviate from FedAvg from round 1 on, unless mu is 0."""
        return (1.0 if self.settings.mu else inf,)
