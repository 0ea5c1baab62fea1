"""Which clients train at once (`training.stacked`), and the workspace in which they do.

Client c is in stack c // S, slot c % S, whichever other clients take part: so its bits are the same in every
process.

Shapes: S slots of a stack, P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from torch import nn

from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.clients.device_sets import DeviceSet
from fedgrid.engine.federation.clients.messages import Memory, Setup, TrainTask
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.flat_vectors import blank
from fedgrid.engine.federation.models.normalisation import MixedPrecision, Normalised
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.local import LocalResult
from fedgrid.engine.federation.training.own_draws import draws
from fedgrid.engine.federation.training.stacked import Member, Stack, train_together


def module_of(setup: Setup, device: str) -> nn.Module:
    """Return a run's model on a torch device, its weights not initialised.

    Raises:
        ConfigError: the model is unknown, or the images are too small for it, or to be cropped.
    """
    setup.training.check_size(setup.shape)
    module = blank(setup.model, setup.shape, setup.num_classes).to(device)
    if (by := setup.normalised_by) is not None:
        module = Normalised(module, by.means, by.deviations, device)
    if setup.training.precision == "bfloat16":
        module = MixedPrecision(module, device)
    return module


def tasks_by_stack(tasks: Sequence[TrainTask], num_slots: int) -> list[list[TrainTask]]:
    """Return the tasks of each stack, in the order in which the stacks' first tasks come."""
    stacks: dict[int, list[TrainTask]] = {}
    for task in tasks:
        stacks.setdefault(task.client // num_slots, []).append(task)
    return list(stacks.values())


@dataclass(frozen=True)
class Turn:
    """A client's turn in a round, up to its training."""

    task: TrainTask
    memory: Memory
    """What its last training left."""
    start: Vector
    """The model that it trains, shape (P,); only read."""
    held: DeviceSet
    """What it trains on."""
    chosen: int
    """Position of the model that it trains."""
    on_server: Counts | None
    """That model on the server's test set, if it is tested before its training."""
    seconds: float


class StackTraining:
    """Trains the clients of one process by stacks."""

    def __init__(self, setup: Setup, device: str) -> None:
        self._setup = setup
        self._stack = Stack(module_of(setup, device), setup.training.stacked)

    def train(self, turns: Sequence[Turn]) -> tuple[list[LocalResult], float]:
        """Train the clients of one stack, each on its own images.

        Returns:
            The results in the order of the turns, and a client's share of the seconds.

        Raises:
            ConfigError: a client is to train by a rule.
        """
        members = {}
        for turn in turns:
            task, held = turn.task, turn.held
            if task.order.rule != PLAIN:
                raise ConfigError(self._setup.training.not_stacked)
            rng = generator(self._setup.seed, "batches", client=task.client, round_index=task.round_index)
            slot = task.client % self._stack.num_slots
            members[slot] = Member(turn.start, held.images, held.labels, rng, turn.memory)
        begun = perf_counter()
        results = train_together(self._stack, members, self._setup.training)
        return [results[slot] for slot in members], (perf_counter() - begun) / len(turns)


def stacks_of(setup: Setup, device: str) -> StackTraining | None:
    """Return where clients train by stacks; None if they train one after the other.

    So do those of a model that draws random numbers itself: `vmap` would draw others than for a client alone.
    """
    if setup.training.stacked == 1 or draws(blank(setup.model, setup.shape, setup.num_classes), setup.shape):
        return None
    return StackTraining(setup, device)
