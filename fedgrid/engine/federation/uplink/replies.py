"""A client's whole reply on its way to the server: the update, and what its local rule sends beside it.

What a client keeps to itself, its personal entries, is not sent. A rule's arrays take the uplink's steps like
an update of their own, except where the uplink only clips, and those that the rule declares `public`.

Shapes: P entries of a state vector, of which W are parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.updates.updates import Vector
from fedgrid.engine.federation.seeds import generator
from fedgrid.engine.federation.uplink.steps import Clip, Noise, UplinkStep, send

RESIDUAL = "uplink_residual"
"""The name, in a client's memory, of what `topk` has not sent of its updates yet; of outputs with `/NAME`."""


@dataclass(frozen=True)
class SentReply:
    """A reply as the server gets it."""

    update: Vector
    """Shape (P,), 0 where entries are personal."""
    outputs: Mapping[str, NDArray[Any]]
    residuals: Mapping[str, Vector]
    """For the client's next round, by their names in its memory."""
    num_bytes: int
    """Of all that was sent, as it was encoded."""


def send_reply(
    trained: Vector,
    outputs: Mapping[str, NDArray[Any]],
    rule: LocalRule,
    memory: Mapping[str, NDArray[Any]],
    uplink: Sequence[UplinkStep],
    num_parameters: int,
    seed: int,
    *,
    client: int,
    round_index: int,
) -> SentReply:
    """Return what reaches the server of a client's training.

    Args:
        trained: the whole update, float32, shape (P,).
        outputs: the rule's arrays.
        rule: says which entries are personal, and which arrays are public.
        memory: the client's, with its residuals of earlier rounds.
        uplink: the steps.
        num_parameters: W.
        seed: of the run.
        client: the sender.
        round_index: from 0.
    """
    at = {"client": client, "round_index": round_index}
    shared = np.ones(len(trained), np.bool_)
    for start, stop in rule.personal:
        shared[start:stop] = False
    count = int(np.count_nonzero(shared[:num_parameters]))
    own = trained[shared] if rule.personal else trained
    sent = send(own, uplink, count, generator(seed, "uplink", **at), memory.get(RESIDUAL))
    update = sent.update
    if rule.personal:
        update = np.zeros_like(trained)
        update[shared] = sent.update
    received, num_bytes = dict(outputs), sent.num_bytes
    residuals = {RESIDUAL: sent.residual}
    for name, array in outputs.items():
        if name not in covered(rule, uplink) or not _is_sendable(array, name, uplink):
            num_bytes += array.nbytes
            continue
        key, rng = f"{RESIDUAL}/{name}", generator(seed, f"uplink of {name}", **at)
        beside = send(np.ravel(array), uplink, array.size, rng, memory.get(key))
        received[name], residuals[key] = beside.update.reshape(array.shape), beside.residual
        num_bytes += beside.num_bytes
    kept = {name: residual for name, residual in residuals.items() if residual is not None}
    return SentReply(update, received, kept, num_bytes)


def covered(rule: LocalRule, uplink: Sequence[UplinkStep]) -> tuple[str, ...]:
    """Return the names of the rule's arrays that take the steps."""
    if all(isinstance(step, Clip) for step in uplink):
        return ()
    return tuple(name for name in rule.outputs if name not in rule.public)


def _is_sendable(array: NDArray[Any], name: str, uplink: Sequence[UplinkStep]) -> bool:
    """Return whether an array can take the steps: only float32 can.

    Raises:
        ValueError: another one, which noise would not cover.
    """
    if array.dtype == np.float32:
        return True
    if any(isinstance(step, Noise) for step in uplink):
        raise ValueError(
            f"the rule sends {name} as {array.dtype}, which noise cannot cover; send float32, or "
            "declare it in the rule's `public` if it tells nothing but the number of images"
        )
    return False
