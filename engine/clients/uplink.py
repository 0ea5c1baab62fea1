"""What happens to an update on its way to the server: transforms applied where the client is, in their order.

The server, and so every clusterer, sees only what was sent. A transform is a section with one key, as in
`uplink: [{clip: 1.0}]`; a new one is a class here and a member of `Transform`.

Shapes: P entries of a state vector, of which W are parameters.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.contract.updates import Vector


@dataclass(frozen=True)
class Sent:
    """An update on its way."""

    update: Vector
    """As the server will decode it, shape (P,)."""
    num_bytes: int
    """Size of its encoding."""


class UplinkTransform(Section):
    """One step between a client and the server."""

    @abstractmethod
    def apply(self, sent: Sent, num_parameters: int, rng: np.random.Generator) -> Sent:
        """Return what is sent on. `num_parameters` is W; `rng` is seeded by (run, client, round)."""


class Clip(UplinkTransform):
    """Scales the parameters' update down to a Euclidean norm; BatchNorm's buffers are sent as they are."""

    clip: Annotated[float, Field(gt=0)]
    """The largest norm that passes unchanged."""

    def apply(self, sent: Sent, num_parameters: int, rng: np.random.Generator) -> Sent:
        """Return the update with at most that norm; one that is not finite stays as it is."""
        parameters = sent.update[:num_parameters]
        norm = float(np.sqrt(np.square(parameters, dtype=np.float64).sum()))
        if not np.isfinite(norm) or norm <= self.clip:
            return sent
        scaled = sent.update.copy()
        scaled[:num_parameters] *= np.float32(self.clip / norm)
        return Sent(scaled, sent.num_bytes)


Transform: TypeAlias = Clip
Uplink = tuple[Transform, ...]


def send(
    update: Vector, uplink: Sequence[UplinkTransform], num_parameters: int, rng: np.random.Generator
) -> Sent:
    """Return an update as it reaches the server after all transforms, float32, shape (P,), and its size."""
    sent = Sent(update, update.nbytes)
    for transform in uplink:
        sent = transform.apply(sent, num_parameters, rng)
    return sent
