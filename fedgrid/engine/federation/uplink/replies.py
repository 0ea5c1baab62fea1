"""A client's whole reply on its way to the server: the update, and what its local rule sends beside it.

What a client keeps to itself, its personal entries, is not sent. A rule's arrays take the uplink's steps like
an update of their own, except where the uplink only clips, and those that the rule declares `public`.

Shapes: P entries of a state vector, of which W are parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.updates.source import UPDATE, Vector
from fedgrid.engine.federation.uplink.steps import Clip, Noise, Sent, UplinkStep, send

RESIDUAL = "uplink_residual"
"""The name, in a client's memory, of what `topk` has not sent of its updates yet; of outputs with `/NAME`."""


def send_reply(
    update: Vector,
    outputs: Mapping[str, NDArray[Any]],
    rule: LocalRule,
    memory: Mapping[str, NDArray[Any]],
    uplink: Sequence[UplinkStep],
    num_parameters: int,
    rng_of: Callable[[str], np.random.Generator],
) -> dict[str, Sent]:
    """Return what reaches the server of a client's training, by name: the update as `UPDATE`, each output.

    Args:
        update: the whole one, float32, shape (P,); what is sent of it is 0 where entries are personal.
        outputs: the rule's arrays.
        rule: says which entries are personal, and which arrays are public.
        memory: the client's, with its residuals of earlier rounds.
        uplink: the steps.
        num_parameters: W.
        rng_of: returns the generator of a purpose, for this client and round.
    """
    if not (uplink or rule.personal):  # Most runs: no generator is made.
        received = {name: Sent(array, array.nbytes) for name, array in outputs.items()}
        return {UPDATE: Sent(update, update.nbytes, residual=memory.get(RESIDUAL)), **received}
    shared = np.ones(len(update), np.bool_)
    for start, stop in rule.personal:
        shared[start:stop] = False
    count = int(np.count_nonzero(shared[:num_parameters]))
    own = update[shared] if rule.personal else update
    sent = send(own, uplink, count, rng_of("uplink"), memory.get(RESIDUAL))
    if rule.personal:
        whole = np.zeros_like(update)
        whole[shared] = sent.update
        sent = replace(sent, update=whole)
    received = {UPDATE: sent}
    for name, array in outputs.items():
        if name not in covered(rule, uplink) or not _is_sendable(array, name, uplink):
            received[name] = Sent(array, array.nbytes)
            continue
        rng = rng_of(f"uplink of {name}")
        sent = send(np.ravel(array), uplink, array.size, rng, memory.get(_residual_name(name)))
        received[name] = replace(sent, update=sent.update.reshape(array.shape))
    return received


def residuals(received: Mapping[str, Sent]) -> dict[str, Vector]:
    """Return what was not sent yet, by its names in the client's memory, for its next round."""
    return {
        _residual_name(name): sent.residual for name, sent in received.items() if sent.residual is not None
    }


def _residual_name(name: str) -> str:
    return RESIDUAL if name == UPDATE else f"{RESIDUAL}/{name}"


def covered(rule: LocalRule, uplink: Sequence[UplinkStep]) -> tuple[str, ...]:
    """Return the names of the rule's arrays that take the steps."""
    if all(isinstance(step, Clip) for step in uplink):
        return ()
    return tuple(name for name in rule.outputs if name not in rule.public)


def _is_sendable(array: NDArray[Any], name: str, uplink: Sequence[UplinkStep]) -> bool:
    """Return whether an array can take the steps: only float32 can."""
    if array.dtype == np.float32:
        return True
    if any(isinstance(step, Noise) for step in uplink):
        raise ValueError(
            f"the rule sends {name} as {array.dtype}, which noise cannot cover; send float32, or "
            "declare it in the rule's `public` if it tells nothing but the number of images"
        )
    return False
