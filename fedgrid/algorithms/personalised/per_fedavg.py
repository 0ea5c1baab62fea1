"""Per-FedAvg: a model that each client adapts well in a few steps on its own images.

Source: Fallah, Mokhtari, Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A
Model-Agnostic Meta-Learning Approach, NeurIPS 2020, arXiv:2002.07948, Algorithm 1, and both approximations
of its section 5. Clients minimise f_i(w - alpha grad f_i(w)). A meta-step takes a batch for each of its
gradients: with w' = w - alpha grad f(w; D1) it goes along h = grad f(w'; D2) (first order), or along
h - alpha [grad f(w + delta h; D3) - grad f(w - delta h; D3)] / (2 delta) (Hessian-free). beta is
`training.learning_rate`, the step that of the run's optimizer.

So every two, or three, of a round's batches make one step of w, also across its epochs. What is left over at
the end does nothing, but for a client with too few batches for one step: there they come again until it is
taken. A client is tested after `adapt_steps` steps w - alpha grad f(w) on its training images; on the
server's images w itself is tested.

Shapes: W entries of a state vector that are parameters.
"""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt

from fedgrid.algorithms.averaging.fedopt import FedOpt, OwnAdaptationSettings
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_rule import Finished, LocalModel, LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import Adaptation
from fedgrid.algorithms.contract.section import Condition
from fedgrid.algorithms.updates.source import Layout

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{fallah2020personalized,
  author = {Fallah, Alireza and Mokhtari, Aryan and Ozdaglar, Asuman},
  title = {Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning
    Approach},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020},
  eprint = {2002.07948},
  archiveprefix = {arXiv}
}"""

Rate = Annotated[float, Field(ge=0)]
Variant = Literal["first-order", "hessian-free"]
BATCHES_PER_STEP = {"first-order": 2, "hessian-free": 3}
"""Variant -> batches of a meta-step."""


class PerFedAvgSettings(OwnAdaptationSettings):
    """Settings of the meta-step, and of the steps before a test."""

    alpha: Rate = 0.01
    """Length of the inner step, and of the steps before a test."""
    variant: Variant = "first-order"
    """Approximation of the Hessian; `hessian-free` takes three batches a step, and not two."""
    delta: Annotated[float, Field(gt=0)] = 1e-3
    """Step of the Hessian-free difference, times the gradient h; without effect in first order."""
    adapt_steps: NonNegativeInt = 1
    """Steps on the training images before a client tests the model."""

    acts_with: ClassVar[Mapping[str, Condition]] = {
        "delta": Condition(lambda given: given.variant == "hessian-free", "variant hessian-free")
    }


class MetaRule(LocalRule):
    """Local rule that trains w by meta-steps."""

    alpha: float
    variant: Variant
    delta: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks."""
        return _MetaSteps(self)


class AdaptRule(LocalRule):
    """Local rule that steps w - alpha grad f(w), whatever the run's optimizer."""

    alpha: float

    def start(self, local: LocalModel) -> LocalSteps:
        """Build the hooks."""
        return _InnerSteps(self.alpha)


class _InnerSteps(LocalSteps):
    """Hook that takes plain gradient steps."""

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Take one step along the batch's gradient; return its logits."""
        logits, gradient = _compute_gradient(local, images, labels)
        local.weights.sub_(gradient, alpha=self._alpha)
        return logits


class _MetaSteps(LocalSteps):
    """Goes from one batch of a group to the next; after the last one w takes its step."""

    def __init__(self, rule: MetaRule) -> None:
        self._rule = rule
        self._batches = BATCHES_PER_STEP[rule.variant]
        self._seen: list[tuple[Tensor, Tensor]] = []
        self._start: Tensor | None = None
        self._direction: Tensor | None = None

    def step(self, local: LocalModel, images: "Tensor", labels: "Tensor") -> "Tensor":
        """Go on in the group of batches; return the logits at which the batch's gradient is computed.

        That is at w, at w', and at w - delta h.
        """
        if len(self._seen) < self._batches:
            self._seen.append((images, labels))
        if self._start is None:
            self._start = local.weights.clone()
            logits, gradient = _compute_gradient(local, images, labels)
            local.weights.sub_(gradient, alpha=self._rule.alpha)
        elif self._direction is None:
            logits, gradient = _compute_gradient(local, images, labels)
            # Cloned: the next gradient is written into the same tensor.
            self._direction = gradient.clone()
            if self._batches == 2:
                self._end_group(local, self._direction)
        else:
            logits, direction = self._correct_direction(local, images, labels)
            self._end_group(local, direction)
        return logits

    def finish(self, local: LocalModel, num_steps: int) -> Finished:
        """Repeat the batches of a client that has too few for one step; leave other remainders out."""
        # Otherwise a client with few images would never move the model.
        if 0 < len(self._seen) < self._batches:
            again = cycle(tuple(self._seen))
            while self._start is not None:
                self.step(local, *next(again))
        elif self._start is not None:
            # An incomplete group leaves no trace: the weights stand at w' or beyond.
            local.weights.copy_(self._start)
        return Finished()

    def _correct_direction(
        self, local: LocalModel, images: "Tensor", labels: "Tensor"
    ) -> "tuple[Tensor, Tensor]":
        """Compute logits, and h less alpha times the difference of gradients along it."""
        assert self._start is not None
        assert self._direction is not None
        delta = self._rule.delta
        local.weights.copy_(self._start).add_(self._direction, alpha=delta)
        # Cloned, as the next gradient overwrites it.
        ahead = _compute_gradient(local, images, labels)[1].clone()
        local.weights.copy_(self._start).sub_(self._direction, alpha=delta)
        logits, behind = _compute_gradient(local, images, labels)
        return logits, self._direction - (ahead - behind) * (self._rule.alpha / (2 * delta))

    def _end_group(self, local: LocalModel, direction: "Tensor") -> None:
        """Take the meta-step from the start of the group, by the run's optimizer."""
        assert self._start is not None
        local.weights.copy_(self._start)
        local.descend(direction)
        self._start = self._direction = None


def _compute_gradient(local: LocalModel, images: "Tensor", labels: "Tensor") -> "tuple[Tensor, Tensor]":
    """Compute a batch's logits and the gradient of its mean loss, which the next call overwrites."""
    logits = local.logits(images)
    return logits.detach(), local.gradient(local.loss(logits, labels))


class PerFedAvg(FedOpt):
    """FedOpt over meta-steps; each client is tested after steps of its own.

    With the same `local_epochs` the model takes half, or a third, of BNC's steps. One step on a small batch
    adapts little; more of them cost no byte.

    Degenerate cases:

    - `adapt_steps: 0` tests the model as it is.
    - With `precision: bfloat16` the Hessian-free variant is refused: the difference of gradients drowns.
    - The training loss in the records is where each batch's gradient is taken.
    """

    settings: PerFedAvgSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Explain the conflict with bfloat16, in whose rounding a difference of gradients drowns."""
        if conditions.training.get("precision") == "bfloat16" and self.settings.variant == "hessian-free":
            return (
                "training.precision = bfloat16: variant hessian-free takes a difference of gradients, "
                "which is lost in rounding to eight bits; set variant: first-order, or precision: float32"
            )
        return super().problem(conditions)

    def rule(self, layout: Layout) -> LocalRule:
        """Build the rule of all rounds."""
        return MetaRule(**self.settings.model_dump(include={"alpha", "variant", "delta"}))

    def fine_tuning(self, state: State, layout: Layout) -> Adaptation | None:
        """Take the inner steps before a test."""
        settings = self.settings
        # Without a step, or of length 0, no adaptation: tests then come from the cache of plain ones.
        adapts = settings.adapt_steps and settings.alpha
        return Adaptation(AdaptRule(alpha=settings.alpha), settings.adapt_steps) if adapts else None
