"""A local method: clients step by the signs of gradients (Bernstein et al. 2018, arXiv:1802.04434)."""

from typing import TYPE_CHECKING, Literal

from fedgrid import LocalMethod, LocalModel, LocalRule, LocalSteps

if TYPE_CHECKING:
    from torch import Tensor


class SignSteps(LocalSteps):
    """What happens at a client, batch by batch."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        """Replace a batch's gradient, in place, before the optimizer steps."""
        gradient.sign_().mul_(self.scale)


class SignRule(LocalRule):
    """Travels with an order to the client."""

    scale: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Return the hooks of a client's training in a round."""
        return SignSteps(self.scale)


class Signs(LocalMethod):
    """Values of `local`: `{name: signs, scale: 0.02}`."""

    name: Literal["signs"] = "signs"
    scale: float = 0.02

    def rule(self) -> LocalRule:
        """Return the rule of every order."""
        return SignRule(scale=self.scale)


LOCAL_METHODS = [Signs]
