"""Privacy budgets: a client whose epsilon would rise above `privacy.epsilon` sends nothing any more.

Each client has its own, so a newcomer begins with all of it. A run goes on until its last round: once no
client can pay, its models stay as they are. What a round costs is known before it, since clients add the
noise themselves.

Shapes: K clients of the federation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isinf, sqrt

from fedgrid.algorithms.contract.base import Diagnostics
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.errors import RunError
from fedgrid.engine.uplink.accountant import Accountant, Spent, epsilon


def affordable(
    accountant: Accountant, spent_K: Spent | None, orders: Sequence[Order], *, is_first: bool = False
) -> Sequence[Order]:
    """Return the orders that leave their client within its budget; all of them without one.

    Args:
        accountant: the run's.
        spent_K: what is spent before the round trains.
        orders: of the round.
        is_first: whether this is the first round.

    Raises:
        RunError: in the first round, if no client can pay for it.
    """
    budget = accountant.privacy.epsilon
    if budget is None or spent_K is None:
        return orders
    costs = accountant.distances(orders, [order.client for order in orders])
    found = [
        order
        for order in orders
        if _after(accountant, spent_K, order.client, costs.get(order.client)) <= budget
    ]
    if is_first and orders and not found:
        least = min(_after(accountant, spent_K, client, costs[client]) for client in costs)
        before = min(_after(accountant, spent_K, client, None) for client in costs)
        advice = "no noise covers what they send" if isinf(least) else "raise the budget or the noise"
        raise RunError(
            f"privacy.epsilon = {budget:g}: no client can pay for round 1: its epsilon is {before:.3g} "
            f"before it and {least:.3g} after it; {advice}"
        )
    return found


def can_speak_again(accountant: Accountant, spent_K: Spent | None, clients: Sequence[int]) -> Sequence[int]:
    """Return the clients that can pay for one more message; all of them without a budget."""
    budget, message = accountant.privacy.epsilon, accountant.message
    if budget is None or spent_K is None or message is None:
        return clients
    cost = sqrt(message.squared_distance({}, 1.0, again=True))
    return [client for client in clients if _after(accountant, spent_K, client, cost) <= budget]


def noted(
    accountant: Accountant,
    diagnostics: Diagnostics,
    spent_K: Spent | None,
    orders: Sequence[Order],
    replied: Iterable[int],
) -> Diagnostics:
    """Return the diagnostics with a warning if a round is the last that some of its clients can pay for.

    `spent_K` is what was spent before it trained, `replied` are the clients that have sent something.
    """
    if accountant.privacy.epsilon is None or spent_K is None:
        return diagnostics
    after_K = accountant.after(spent_K, len(spent_K), orders, replied, None)
    if not (last := len(orders) - len(affordable(accountant, after_K, orders))):
        return diagnostics
    warning = (
        f"{last} of the {len(orders)} clients asked have spent their budget of epsilon "
        f"{accountant.privacy.epsilon:g}: they send nothing any more"
    )
    return replace(diagnostics, warnings=(*diagnostics.warnings, warning))


def _after(accountant: Accountant, spent_K: Spent, client: int, distance: float | None) -> float:
    """Return a client's epsilon once it has moved what is released by so many deviations."""
    squared = float(spent_K[client]) + (accountant.scale * (distance or 0.0)) ** 2
    return epsilon(squared, accountant.privacy.delta)
