"""What it costs to meet newcomers: their messages, and the encoder that these are made with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.base import Algorithm, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.orders import Payload
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.clients.messages import Described, TrainReport
from fedgrid.engine.clients.pool import Pool
from fedgrid.engine.seeds import generator

if TYPE_CHECKING:
    # Imports torch, which takes seconds.
    from fedgrid.engine.encoders.encoder import Encoder


def meet(
    algorithm: Algorithm,
    newcomers: Sequence[int],
    present: Sequence[int],
    run_state: RunState,
    pool: Pool,
    layout: Layout,
    seed: int,
    encoder: "Encoder | None",
) -> tuple[State, "Meeting"]:
    """Return the state that has heard the messages of clients that join in this round, and their cost.

    In a round in which the algorithm meets all clients again, these are the messages of all that are present.

    Args:
        seed: the run's root seed.
        encoder: what the algorithm's message asks for.
    """
    message, round_index = algorithm.message(), run_state.rounds_done
    again = algorithm.meets_again(round_index)
    speakers = present if again else newcomers
    if message is None or not speakers:
        return run_state.state, Meeting()
    message = message.model_copy(update={"round_index": round_index})
    described = pool.describe(speakers, message, encoder)
    messages = {client: each.payload for client, each in zip(speakers, described, strict=True)}
    rng = generator(seed, "messages", round_index=round_index)
    hear = algorithm.meet_again if again else algorithm.meet
    meeting = Meeting.of(described, len(newcomers), encoder, round_index)
    return hear(run_state.state, messages, layout, rng), replace(
        meeting, messages=messages, again=frozenset(messages).difference(newcomers)
    )


@dataclass(frozen=True)
class Meeting:
    """The cost of the messages of one round; by default there are none."""

    up: int = 0
    """Bytes of the messages."""
    encoder: tuple[int, int] = (0, 0)
    """Bytes of the encoder, down and up: its federated training in round 1, its way to each newcomer."""
    each: tuple[float, ...] = ()
    """Seconds of each message."""
    messages: Mapping[int, Payload] = field(default_factory=dict)
    """The messages, by client."""
    again: frozenset[int] = frozenset()
    """Those of them that had sent one before."""

    @classmethod
    def of(
        cls, described: Sequence[Described], newcomers: int, encoder: "Encoder | None", round_index: int
    ) -> "Meeting":
        """Return the cost of messages, of which so many are newcomers'; `round_index` counts from 0."""
        up = sum(array.nbytes for each in described for array in each.payload.values())
        seconds = tuple(each.seconds for each in described)
        if encoder is None:
            return cls(up, each=seconds)
        training = (encoder.bytes_down, encoder.bytes_up) if round_index == 0 else (0, 0)
        return cls(up, (training[0] + encoder.num_bytes * newcomers, training[1]), seconds)

    def seconds(self, trained: Sequence[TrainReport]) -> dict[str, float | None]:
        """Return mean seconds of a message, and of an epoch of the clients that were trained here."""
        epochs = [report.epoch_seconds for report in trained]
        return {
            "message_seconds": fmean(self.each) if self.each else None,
            "epoch_seconds": fmean(epochs) if epochs else None,
        }
