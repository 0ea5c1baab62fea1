"""What a client remembers between its rounds, and what local training leaves behind.

Shapes: P entries of a state vector, of which W are parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.training.confusion import Counts

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
    """Mean loss of each epoch, as the model changed; NaN where no image was trained on."""
    accuracies: tuple[float, ...]
    """Share of images classified rightly in each epoch, as the model changed; NaN likewise, and of
    numbers to predict."""
    steps: int
    outputs: Memory
    memory: Memory
    """For the client's next round: what the rule remembers; personal entries under `personal`, in the order
    of their ranges; if it is kept, the optimizer's state under `optimizer`: shape (W,) of SGD with momentum,
    (2 W + 1,) of Adam."""
    tested: Counts | None = None
    """What the test returned that was asked for."""
    has_own_test: bool = False
    """Whether the rule has a test of its own (`LocalSteps.test`)."""
