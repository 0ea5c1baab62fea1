"""What is decided before the clients of a round train."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.checks import check_orders, freeze
from fedgrid.algorithms.contract.orders import Payload
from fedgrid.algorithms.updates.source import read_only
from fedgrid.engine.federation.clients.messages import Described, TrainReport
from fedgrid.engine.federation.own_code import own_code
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.federation.uplink.ledger import Ledger

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import State
    from fedgrid.algorithms.contract.orders import Order
    from fedgrid.engine.federation.clients.pool import Pool
    from fedgrid.engine.federation.encoders.encoder import Encoder
    from fedgrid.engine.federation.round.federation import Federation
    from fedgrid.engine.federation.round.participation import Attendance
    from fedgrid.engine.federation.round.run_state import RunState


@dataclass(frozen=True)
class Plan:
    """Who does what in one round."""

    round_index: int
    """From 0."""
    attendance: Attendance
    state: State
    """The algorithm's, once it has heard the round's messages."""
    meeting: Meeting
    ordered: Sequence[Order]
    """What the algorithm asks for, by client."""
    orders: Sequence[Order]
    """Those that are within their client's privacy budget."""
    ledger: Ledger
    """Of the round, with the messages charged."""

    @property
    def reached(self) -> list[Order]:
        """The orders of the clients that reply."""
        return self.attendance.reached(self.orders)

    @property
    def is_out_of_budget(self) -> bool:
        """Whether none of the clients that are asked can pay, so that the models stay as they are."""
        return bool(self.ordered) and not self.orders


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
        encoder: Encoder | None,
        round_index: int,
    ) -> Meeting:
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


def plan_round(federation: Federation, run_state: RunState, pool: Pool) -> Plan:
    """Return the plan of the next round; clients of `pool` send their messages.

    Raises:
        BrokenContract: the algorithm's state or orders are impossible.
        FinalError: no client can pay for round 1.
    """
    round_index = run_state.rounds_done
    attendance = federation.participation.attendance(round_index)
    ledger = Ledger(federation.accountant, run_state.spent_K, len(federation.truth_K), round_index)
    state = _reveal(federation, freeze(run_state.state), round_index)
    state, meeting = _meet(federation, state, attendance, ledger, pool, round_index)
    ledger.charge(meeting.messages, meeting.again)
    algorithm = federation.algorithm
    presence = attendance.presence
    rng = generator(federation.seed, "orders", round_index=round_index)
    own_rng = generator(federation.seed, "own orders", round_index=round_index)
    with own_code(algorithm, "orders", own_rng):
        orders = algorithm.orders(state, round_index, presence, rng)
    ordered = [
        replace(order, rule=federation.keep_buffers(order.rule))
        for order in check_orders(algorithm, orders, len(state.models), presence)
    ]
    return Plan(round_index, attendance, state, meeting, ordered, ledger.affordable(ordered), ledger)


def _reveal(federation: Federation, state: State, round_index: int) -> State:
    """Return the state of an algorithm that is told the hidden groups, once clients have moved."""
    if not federation.changes.begins(round_index):
        return state
    now_K, before_K = (
        federation.changes.truth(federation.truth_K, index) for index in (round_index, round_index - 1)
    )
    return federation.checked("reveal", federation.algorithm.reveal(state, now_K, before_K))


def _meet(
    federation: Federation, state: State, attendance: Attendance, ledger: Ledger, pool: Pool, round_index: int
) -> tuple[State, Meeting]:
    """Return the state that has heard the messages of newcomers, or of all that are met again."""
    algorithm = federation.algorithm
    message = federation.algorithm.message()
    again = algorithm.meets_again(round_index)
    speakers = ledger.can_pay(attendance.present) if again else attendance.newcomers
    if message is None or not speakers:
        return state, Meeting()
    message = message.model_copy(update={"round_index": round_index})
    described = pool.describe(speakers, message, federation.encoder)
    meeting = Meeting.of(speakers, described, attendance.newcomers, federation.encoder, round_index)
    rng = generator(federation.seed, "messages", round_index=round_index)
    hear = algorithm.meet_again if again else algorithm.meet
    own_rng = generator(federation.seed, "own messages", round_index=round_index)
    with own_code(algorithm, hear.__name__, own_rng):
        state = hear(state, meeting.messages, federation.layout, rng)
    return federation.checked(hear.__name__, state), meeting
