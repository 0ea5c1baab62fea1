"""Random generators: a run has one for each (root seed, purpose, client, round), and reads no global one.

Own code may draw from those of the whole process: they are seeded from a generator of the run for each call.

A root seed is a digest of a scenario's name and the run's seed. All algorithms of a scenario and seed share
their numbers; runs of different scenarios are independent, as tests over scenarios assume.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def generator(seed: int, purpose: str, *, client: int = -1, round_index: int = -1) -> np.random.Generator:
    """Return the generator of a purpose, independent of all others and of the order of calls.

    Args:
        seed: the run's root seed, or the user's own if the purpose names the scenario.
        purpose: a unique text, such as `batches`.
        client: the client, if the purpose has one generator per client.
        round_index: the round, from 0, if the purpose has one generator per round.
    """
    return np.random.default_rng(_number(f"{seed}/{purpose}/{client}/{round_index}"))


def root_seed(scenario: str, seed: int) -> int:
    """Return the root seed of the runs of a scenario, in 0..2^128 - 1, for the seed that the user chose.

    `scenario` is its name, as in `RunConfig.scenario`: data set, number of clients and split, but no path.
    """
    return _number(f"scenario {scenario}/{seed}")


@contextmanager
def seeded(device: str | None, rng: np.random.Generator) -> Iterator[None]:
    """Seed the generators of the whole process from `rng`, as `seed_all`; restore their states afterwards."""
    with restored(device):
        seed_all(device, rng)
        yield


def seed_all(device: str | None, rng: np.random.Generator) -> None:
    """Seed torch's generators of the CPU and of `device`, NumPy's and Python's: own code may draw from any.

    Without a device torch's are left alone, and torch is not imported.

    A tenth as long as to restore them too, which is done once for many clients.
    """
    seed = int(rng.integers(2**63))
    for source in _of_torch(device):
        source.manual_seed(seed)
    np.random.seed(int(rng.integers(2**32)))
    random.seed(int(rng.integers(2**63)))


@contextmanager
def restored(device: str | None) -> Iterator[None]:
    """Restore the states of the generators that `seed_all` seeds after the block."""
    sources = _of_torch(device)
    before = [source.get_state() for source in sources]
    before_numpy, before_python = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        for source, state in zip(sources, before, strict=True):
            source.set_state(state)
        np.random.set_state(before_numpy)
        random.setstate(before_python)


def _of_torch(device: str | None) -> list["torch.Generator"]:
    if device is None:
        return []
    import torch  # Takes a second, and most of what needs seeds does without.

    sources = [torch.default_generator]
    # Nothing is drawn on a GPU that torch cannot use.
    if (place := torch.device(device)).type == "cuda" and torch.cuda.is_available():
        index = torch.cuda.current_device() if place.index is None else place.index
        sources.append(torch.cuda.default_generators[index])
    return sources


def global_states() -> tuple[object, ...]:
    """Return the states of the generators that `seeded` seeds on the CPU, to compare."""
    import torch

    name, keys, *rest = np.random.get_state()
    state = torch.default_generator.get_state().numpy().tobytes()
    return state, (name, np.asarray(keys).tobytes(), *rest), random.getstate()


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:16], "big")
