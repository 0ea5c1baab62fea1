"""A client's whole reply on its way to the server: the update, and other arrays that its local rule sends.

Personal entries, which a client keeps to itself, are not sent. A rule's float32 arrays take the uplink's
steps as the update does, each on its own, with two exceptions: arrays that the rule declares `public`, and
any array if clipping is the only step. Then the update alone is clipped.

Shapes: P entries of a state vector, of which W are parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.updates.source import UPDATE, Layout, Vector
from fedgrid.engine.federation.errors import FinalError, find_plugin_file
from fedgrid.engine.federation.uplink.steps import Clip, Noise, SentArray, UplinkStep, send_update

RESIDUAL = "uplink_residual"
"""Name, in a client's memory, of what `topk` has not sent of its updates yet; `/NAME` is added for an
output.
"""


def send_reply(
    update: Vector | None,
    outputs: Mapping[str, NDArray[Any]],
    rule: LocalRule,
    memory: Mapping[str, NDArray[Any]],
    uplink: Sequence[UplinkStep],
    layout: Layout,
    make_rng: Callable[[str], np.random.Generator],
) -> dict[str, SentArray]:
    """Send a client's reply through the uplink.

    Args:
        update: The complete update, float32, shape (P,); what is sent of it is 0 where entries are personal.
            None: the client only answers, and its update is zero.
        outputs: The rule's arrays, by name.
        rule: Says which entries are personal, and which arrays are public.
        memory: The client's, with its residuals of earlier rounds.
        uplink: The steps, in their order.
        layout: That of the update.
        make_rng: Makes the generator of a purpose, for this client and round.

    Returns:
        What reaches the server, by name: the update as `UPDATE`, and each output.
    """
    if update is None:
        zeros = np.zeros(layout.size, np.float32)
        residual = memory.get(RESIDUAL)
        return {
            UPDATE: SentArray(zeros, 0, residual=residual),
            **_send_outputs(outputs, rule, memory, uplink, make_rng),
        }
    if not (uplink or rule.personal):  # Most runs: no generator is made. The old residual stays in memory.
        received = {name: SentArray(array, array.nbytes) for name, array in outputs.items()}
        return {UPDATE: SentArray(update, update.nbytes, residual=memory.get(RESIDUAL)), **received}
    shared = np.ones(len(update), np.bool_)
    for start, stop in rule.personal:
        shared[start:stop] = False
    num_shared = int(np.count_nonzero(shared[: layout.num_parameters]))
    # Personal entries are cut out before the steps: they would take part in the norm that is clipped, and in
    # the largest entries.
    shared_update = update[shared] if rule.personal else update
    sent = send_update(shared_update, uplink, num_shared, make_rng("uplink"), memory.get(RESIDUAL))
    if rule.personal:
        padded = np.zeros_like(update)
        padded[shared] = sent.update
        sent = replace(sent, update=padded)
    return {UPDATE: sent, **_send_outputs(outputs, rule, memory, uplink, make_rng)}


def _send_outputs(
    outputs: Mapping[str, NDArray[Any]],
    rule: LocalRule,
    memory: Mapping[str, NDArray[Any]],
    uplink: Sequence[UplinkStep],
    make_rng: Callable[[str], np.random.Generator],
) -> dict[str, SentArray]:
    """Send the rule's arrays through the uplink, each on its own; see `send_reply`."""
    received = {}
    for name, array in outputs.items():
        if name not in list_covered_outputs(rule, uplink) or not _can_take_steps(array, name, rule, uplink):
            received[name] = SentArray(array, array.nbytes)
            continue
        rng = make_rng(f"uplink of {name}")
        output = send_update(np.ravel(array), uplink, array.size, rng, memory.get(_residual_name(name)))
        received[name] = replace(output, update=output.update.reshape(array.shape))
    return received


def collect_residuals(received: Mapping[str, SentArray]) -> dict[str, Vector]:
    """Collect what was not sent yet, by its names in the client's memory, for its next round."""
    return {
        _residual_name(name): sent.residual for name, sent in received.items() if sent.residual is not None
    }


def _residual_name(name: str) -> str:
    """Build the name of an array's residual in the client's memory."""
    return RESIDUAL if name == UPDATE else f"{RESIDUAL}/{name}"


def list_covered_outputs(rule: LocalRule, uplink: Sequence[UplinkStep]) -> tuple[str, ...]:
    """List the names of the rule's arrays that take the uplink's steps, if they are float32.

    Called for each reply, and by the ledger, which charges them.
    """
    # A clip is there to bound what noise must cover, or to limit attackers; without further steps only the
    # update needs it.
    if all(isinstance(step, Clip) for step in uplink):
        return ()
    return tuple(name for name in rule.outputs if name not in rule.public)


def _can_take_steps(array: NDArray[Any], name: str, rule: LocalRule, uplink: Sequence[UplinkStep]) -> bool:
    """Check whether an array can take the steps: only float32 can; others are sent as they are.

    Raises:
        FinalError: it cannot, and noise would have to cover it.
    """
    if array.dtype == np.float32:
        return True
    if any(isinstance(step, Noise) for step in uplink):
        raise FinalError(
            f"{find_plugin_file(type(rule), 'start')}{type(rule).__name__} sends {name} as {array.dtype}, "
            "which noise cannot cover; send float32, or declare it in the rule's `public` if it tells "
            "nothing but the number of images"
        )
    return False
