"""What the local training of one client leaves behind, and by which names.

Shapes: P entries of a state vector, of which W are parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.updates.source import Vector

Memory = Mapping[str, NDArray[Any]]
NOTHING: Memory = MappingProxyType({})
OPTIMIZER, PERSONAL = "optimizer", "personal"
"""The names of the optimizer's state and of personal entries (`LocalRule.personal`) in a client's memory."""


@dataclass(frozen=True)
class LocalResult:
    """What local training leaves behind."""

    model: Vector
    """The whole state afterwards, float32, shape (P,)."""
    losses: tuple[float, ...]
    """Mean cross-entropy of each epoch, as the model changed; NaN where no image was trained on."""
    accuracies: tuple[float, ...]
    """Share of images classified rightly in each epoch, as the model changed; NaN likewise."""
    steps: int
    outputs: Memory
    memory: Memory
    """For the client's next round: what the rule remembers; personal entries under `personal`, in the order
    of their ranges; if it is kept, the optimizer's state under `optimizer`: shape (W,) of SGD with momentum,
    (2 W + 1,) of Adam."""


def check_names(rule: LocalRule, result: LocalResult) -> None:
    """Check that a rule has returned what it declares, because only that is sent and kept.

    Raises:
        ValueError: otherwise.
    """
    kinds = {
        "outputs": (set(rule.outputs), set(result.outputs)),
        "remembers": (set(rule.remembers), set(result.memory) - {OPTIMIZER, PERSONAL}),
    }
    for name, (declared, returned) in kinds.items():
        if declared != returned:
            raise ValueError(
                f"{type(rule).__name__}.{name} declares {sorted(declared)}, its `finish` returned "
                f"{sorted(returned)}"
            )
