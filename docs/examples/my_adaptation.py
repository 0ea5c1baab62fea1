"""Fine-tuning before a test, with a learning rate that falls linearly to zero."""

from typing import TYPE_CHECKING

from fedgrid import (
    Adaptation,
    AlgorithmEntry,
    FedOpt,
    FedOptSettings,
    Layout,
    LocalModel,
    LocalRule,
    LocalSteps,
    State,
)

if TYPE_CHECKING:
    from torch import Tensor


class FallingRate(LocalRule):
    """Multiplies the gradient of step i, from 0, by 1 - i / n; `local.num_steps` is n."""

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks of one client; called by the client's loop before the first step."""
        return _Falling(local.num_steps)


class _Falling(LocalSteps):
    """Number of the steps that are left, which scales the gradient."""

    def __init__(self, num_steps: int) -> None:
        self._left = self._num_steps = num_steps

    def correct(self, weights: "Tensor", gradient: "Tensor") -> None:
        gradient.mul_(self._left / self._num_steps)
        self._left -= 1


class Refined(FedOpt):
    """FedAvg, whose clients refine the model for `fine_tune` steps before they test it."""

    def fine_tuning(self, state: State, layout: Layout) -> Adaptation:
        """Describe what a client does to the model that it is served, before its test."""
        return Adaptation(FallingRate(), self.settings.fine_tune)


ALGORITHMS = [
    AlgorithmEntry(
        name="refined",
        title="Refined",
        summary="one model for all, fine-tuned before the test with a falling learning rate",
        source="ours",
        algorithm=Refined,
        settings=FedOptSettings(fine_tune=20),
    )
]
