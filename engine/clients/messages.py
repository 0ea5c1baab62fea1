"""What travels between the server and its clients in a round. Plain data, cheap to send."""

from dataclasses import dataclass

from fedgrid.engine.clients.peak_memory import PeakMemory
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.training.confusion import Counts


@dataclass(frozen=True)
class ClientData:
    """What one client holds."""

    client: int
    train: ImageSet
    test: ImageSet


@dataclass(frozen=True)
class TrainTask:
    """Train one client in one round."""

    client: int
    round_index: int
    candidates: tuple[int, ...]
    """Positions in the round's list of models; the client trains the one it fits best."""
    evaluate: bool
    """Whether the locally trained model is tested too."""


@dataclass(frozen=True)
class TrainReport:
    """What a client says about its local training; its update travels separately."""

    client: int
    chosen: int
    """Position of the model it trained."""
    train_loss: float
    """Running mean cross-entropy of the last local epoch (as the model changes)."""
    train_accuracy: float
    """Running accuracy of the last local epoch."""
    update_norm: float
    """Euclidean norm of the update over the whole state."""
    usable: bool
    """Whether every entry of the update, and its squared norm in float32, is finite."""
    local: Counts | None
    """The locally trained model on the client's own test set."""
    local_server: Counts | None
    """The locally trained model on the server's test set."""
    seconds: float
    """Wall time of training and testing (a clock reading: it goes to the timings only)."""
    memory: PeakMemory
    """Of the process that trained (to the timings only, too)."""


@dataclass(frozen=True)
class EvaluateTask:
    """Test aggregated models at one client."""

    client: int
    own: int
    """Position of the client's own cluster model."""


@dataclass(frozen=True)
class EvaluateReport:
    """The aggregated models, as one client sees them."""

    client: int
    own: Counts
    """Its cluster's model on its own test set."""
    server_parts: tuple[Counts, ...]
    """Every model on this client's part of the server's test set (the parts tile that set)."""
