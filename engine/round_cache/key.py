"""What the numbers of a federation's rounds come from, as a digest: code, device, data, settings."""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.clients.messages import ImageSet
from fedgrid.engine.clients.pool import Setup

CODE = ("engine/**/*.py", "algorithms/contract/*.py")
"""What trains, tests and compares: with one line of it changed, nothing is taken from before."""


def of_setup(setup: Setup, device: str) -> str:
    """Return what tells the rounds of a federation from those of every other, `device` being its clients'.

    Images are looked at themselves, as a data set's files may change under their names.
    """
    parts = [
        *_numerics(),
        device,
        setup.model,
        str(setup.num_classes),
        setup.training.model_dump_json(exclude={"rounds"}),
        str(setup.seed),
        *(plugin.digest for plugin in setup.plugins),
        _of_images(setup.server_set),
        str(setup.server_parts),
        *(f"{held.client} {_of_images(held.train)} {_of_images(held.test)}" for held in setup.clients),
    ]
    return sha256("\n".join(parts).encode()).hexdigest()


class Digests:
    """Digests of models, each worked out once while it is in use."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Vector, str]] = {}

    def of(self, models: Sequence[Vector]) -> list[str]:
        """Return a digest a model; those of other models are forgotten."""
        self._known = {id(model): self._known.get(id(model)) or (model, of_array(model)) for model in models}
        return [self._known[id(model)][1] for model in models]


def of_array(array: np.ndarray) -> str:
    """Return the digest of an array's entries."""
    return sha256(np.asarray(array, order="C").data).hexdigest()


def _of_images(held: ImageSet) -> str:
    return f"{held.images.shape} {of_array(held.images)} {of_array(held.labels)}"


@cache
def _numerics() -> tuple[str, ...]:
    """Return the versions of what computes, here and now."""
    import torch

    root = Path(__file__).parents[2]
    code = sha256()
    for path in sorted(path for pattern in CODE for path in root.glob(pattern)):
        code.update(path.read_bytes())
    return torch.__version__, torch.backends.cpu.get_cpu_capability(), np.__version__, code.hexdigest()
