"""What it costs to meet clients: their messages, and the encoder that these are made with."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.orders import Payload
from fedgrid.algorithms.updates.source import read_only
from fedgrid.engine.federation.clients.messages import Described, TrainReport

if TYPE_CHECKING:
    # Imports torch, which takes seconds.
    from fedgrid.engine.federation.encoders.encoder import Encoder


@dataclass(frozen=True)
class Meeting:
    """The messages of one round and what they cost; by default there are none."""

    messages: Mapping[int, Payload] = field(default_factory=dict)
    """By client."""
    again: frozenset[int] = frozenset()
    """The clients that had sent one before."""
    up: int = 0
    """Bytes of the messages."""
    encoder: tuple[int, int] = (0, 0)
    """Bytes of the encoder, down and up: its federated training in round 1, its way to each newcomer."""
    durations: tuple[float, ...] = ()
    """Seconds of each message."""

    @classmethod
    def of(
        cls,
        speakers: Sequence[int],
        described: Sequence[Described],
        newcomers: Collection[int],
        encoder: "Encoder | None",
        round_index: int,
    ) -> "Meeting":
        """Return what the speakers have said, in their order; `round_index` counts from 0."""
        messages = {client: said.payload for client, said in zip(speakers, described, strict=True)}
        read_only(array for payload in messages.values() for array in payload.values())
        of_encoder = (0, 0)
        if encoder is not None:
            down, up = (encoder.bytes_down, encoder.bytes_up) if round_index == 0 else (0, 0)
            of_encoder = down + encoder.num_bytes * len(newcomers), up
        return cls(
            messages,
            frozenset(messages).difference(newcomers),
            sum(array.nbytes for payload in messages.values() for array in payload.values()),
            of_encoder,
            tuple(said.seconds for said in described),
        )

    def seconds(self, trained: Sequence[TrainReport]) -> dict[str, float | None]:
        """Return mean seconds of a message, and of an epoch of the clients that were trained here."""
        epochs = [report.epoch_seconds for report in trained]
        return {
            "message_seconds": fmean(self.durations) if self.durations else None,
            "epoch_seconds": fmean(epochs) if epochs else None,
        }
