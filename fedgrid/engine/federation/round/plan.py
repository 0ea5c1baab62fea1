"""The plan of a round: who is present, what they say before training, and what they are ordered to train."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.checks import check_orders, freeze_state
from fedgrid.algorithms.contract.orders import Payload
from fedgrid.algorithms.updates.source import make_read_only
from fedgrid.engine.federation.clients.messages import ClientDescription, TrainReport
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.seeds import make_generator
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
    """What each client does in one round, decided before any client trains."""

    round_index: int
    """The round, from 0."""
    attendance: Attendance
    """Which clients are present and sampled, and which drop out."""
    state: State
    """The algorithm's state, after it has processed the round's messages."""
    exchange: MessageExchange
    """The messages that clients sent before training."""
    orders_before_budget: Sequence[Order]
    """The orders that the algorithm has given, by client."""
    orders: Sequence[Order]
    """The orders that are within their client's privacy budget."""
    ledger: Ledger
    """The round's account of privacy, with the messages charged."""

    @property
    def reached_orders(self) -> list[Order]:
        """The orders of the clients that reply."""
        return self.attendance.select_reached(self.orders)

    @property
    def is_out_of_budget(self) -> bool:
        """Whether no client with an order can pay for it, so that the models stay as they are."""
        return bool(self.orders_before_budget) and not self.orders


@dataclass(frozen=True)
class MessageExchange:
    """The messages of one round and what they cost; by default there are none."""

    messages: Mapping[int, Payload] = field(default_factory=dict)
    """Payload of each client that sent a message."""
    repeat_senders: frozenset[int] = frozenset()
    """The clients that had sent one before."""
    bytes_up: int = 0
    """Bytes of the messages."""
    encoder_bytes: tuple[int, int] = (0, 0)
    """Bytes of the encoder, down and up: its federated training in round 1, and its way to each newcomer."""
    durations: tuple[float, ...] = ()
    """Seconds that each message took."""

    @classmethod
    def from_descriptions(
        cls,
        senders: Sequence[int],
        described: Sequence[ClientDescription],
        newcomers: Collection[int],
        encoder: Encoder | None,
        round_index: int,
    ) -> MessageExchange:
        """Collect the messages of a round and count their bytes.

        Args:
            speakers: The clients that sent a message.
            described: Their messages, in the same order.
            newcomers: The clients in whose first round this is; each of them needs the encoder.
            encoder: The trained encoder that messages are made with; None: there is none.
            round_index: The round, from 0.
        """
        messages = {
            client: description.payload for client, description in zip(senders, described, strict=True)
        }
        make_read_only(array for payload in messages.values() for array in payload.values())
        encoder_bytes = (0, 0)
        if encoder is not None:
            # Training the encoder took place before round 1, so its bytes belong there; later rounds only
            # send it to newcomers.
            down, up = (encoder.bytes_down, encoder.bytes_up) if round_index == 0 else (0, 0)
            encoder_bytes = down + encoder.num_bytes * len(newcomers), up
        return cls(
            messages,
            frozenset(messages).difference(newcomers),
            sum(array.nbytes for payload in messages.values() for array in payload.values()),
            encoder_bytes,
            tuple(description.seconds for description in described),
        )

    def average_seconds(self, trained: Sequence[TrainReport]) -> dict[str, float | None]:
        """Average the seconds of a message, and those of a local epoch.

        Epochs are those of the clients that this run has trained itself.
        """
        epochs = [report.epoch_seconds for report in trained]
        return {
            "message_seconds": fmean(self.durations) if self.durations else None,
            "epoch_seconds": fmean(epochs) if epochs else None,
        }


def plan_round(federation: Federation, run_state: RunState, pool: Pool) -> Plan:
    """Plan the next round; clients of `pool` send their messages for it.

    Args:
        federation: What stays the same in every round.
        run_state: The run after its last round; only read.
        pool: Where the clients are.

    Raises:
        BrokenContract: the algorithm's state or orders are impossible.
        FinalError: no client can pay for round 1.
    """
    # 1. Who is there: a pure function of the run's seed and the round.
    round_index = run_state.rounds_done
    attendance = federation.participation.draw_attendance(round_index)
    ledger = Ledger(federation.accountant, run_state.spent_K, len(federation.truth_K), round_index)
    # 2. What the algorithm learns before training: changed hidden groups, if it may know them, and messages,
    # which cost privacy.
    state = _reveal_moved_groups(federation, freeze_state(run_state.state), round_index)
    state, meeting = _exchange_messages(federation, state, attendance, ledger, pool, round_index)
    ledger.charge_messages(meeting.messages, meeting.repeat_senders)
    algorithm = federation.algorithm
    # 3. What it orders. The engine adds that buffers stay with the clients, whatever the rule.
    presence = attendance.presence
    rng = make_generator(federation.seed, "orders", round_index=round_index)
    own_rng = make_generator(federation.seed, "own orders", round_index=round_index)
    with plugin_call_context(algorithm, "orders", own_rng):
        orders = algorithm.orders(state, round_index, presence, federation.layout, rng)
    ordered = [
        replace(order, rule=federation.keep_own_buffers(order.rule))
        for order in check_orders(algorithm, orders, len(state.models), presence)
    ]
    # 4. What clients can pay for, after their messages have been charged.
    return Plan(round_index, attendance, state, meeting, ordered, ledger.select_affordable(ordered), ledger)


def _reveal_moved_groups(federation: Federation, state: State, round_index: int) -> State:
    """Tell the algorithm the hidden groups again in a round in which clients move; most ignore them."""
    if not federation.unusual_clients.has_move(round_index):
        return state
    now_K, before_K = (
        federation.unusual_clients.find_groups(federation.truth_K, index)
        for index in (round_index, round_index - 1)
    )
    return federation.check_returned_state("reveal", federation.algorithm.reveal(state, now_K, before_K))


def _exchange_messages(
    federation: Federation, state: State, attendance: Attendance, ledger: Ledger, pool: Pool, round_index: int
) -> tuple[State, MessageExchange]:
    """Collect the round's messages and give them to the algorithm; return its state, and the messages.

    Newcomers send one in their first round; if the algorithm meets again, all send one that can pay for it.
    """
    algorithm = federation.algorithm
    message = federation.algorithm.message()
    again = algorithm.meets_again(round_index)
    senders = ledger.select_payers(attendance.present) if again else attendance.newcomers
    if message is None or not senders:
        return state, MessageExchange()
    # A client whose data have changed describes those that it holds in this round.
    message = message.model_copy(update={"round_index": round_index})
    described = pool.describe(senders, message, federation.encoder)
    meeting = MessageExchange.from_descriptions(
        senders, described, attendance.newcomers, federation.encoder, round_index
    )
    rng = make_generator(federation.seed, "messages", round_index=round_index)
    process_messages = algorithm.meet_again if again else algorithm.meet
    own_rng = make_generator(federation.seed, "own messages", round_index=round_index)
    with plugin_call_context(algorithm, process_messages.__name__, own_rng):
        state = process_messages(state, meeting.messages, federation.layout, rng)
    return federation.check_returned_state(process_messages.__name__, state), meeting
