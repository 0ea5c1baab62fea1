"""Random generators: a run has one for each (root seed, purpose, client, round), and reads no global one.

Plugins may draw from the global generators: these are seeded from a generator of the run for each call.

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


def make_generator(
    seed: int, purpose: str, *, client: int = -1, round_index: int = -1
) -> np.random.Generator:
    """Make the generator of a purpose, independent of all others and of the order of calls.

    Args:
        seed: the run's root seed, or the user's own if the purpose names the scenario.
        purpose: a unique text, such as `batches`. Changing it changes the numbers of every run.
        client: the client, if the purpose has one generator per client. Default: -1, none.
        round_index: the round, from 0, if the purpose has one generator per round. Default: -1, none.
    """
    return np.random.default_rng(_hash_to_int(f"{seed}/{purpose}/{client}/{round_index}"))


def derive_root_seed(scenario: str, seed: int) -> int:
    """Derive the root seed of the runs of a scenario, in 0..2^128 - 1, from the seed that the user chose.

    Args:
        scenario: its name, as in `RunConfig.scenario`: data set, number of clients and split, but no path.
        seed: the user's seed.
    """
    return _hash_to_int(f"scenario {scenario}/{seed}")


@contextmanager
def temporary_seeds(device: str | None, rng: np.random.Generator) -> Iterator[None]:
    """Seed the global generators from `rng` for a `with` block, and restore their states after it."""
    with preserve_states(device):
        seed_all(device, rng)
        yield


def seed_all(device: str | None, rng: np.random.Generator) -> None:
    """Seed the global generators of torch (CPU and `device`), NumPy and Python, from which a plugin may draw.

    Args:
        device: the torch device; None leaves torch's generators alone, and torch is not imported.
        rng: the generator of the run that the seeds are drawn from.
    """
    # torch, NumPy, Python: the order of the three draws is part of a run's numbers. NumPy takes 32 bits only.
    seed = int(rng.integers(2**63))
    for source in _torch_generators(device):
        source.manual_seed(seed)
    np.random.seed(int(rng.integers(2**32)))
    random.seed(int(rng.integers(2**63)))


@contextmanager
def preserve_states(device: str | None) -> Iterator[None]:
    """Restore the states of the generators that `seed_all` seeds, after a `with` block.

    Restoring takes ten times as long as seeding, so one block may enclose the calls of many clients.
    """
    sources = _torch_generators(device)
    before = [source.get_state() for source in sources]
    before_numpy, before_python = np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        for source, state in zip(sources, before, strict=True):
            source.set_state(state)
        np.random.set_state(before_numpy)
        random.setstate(before_python)


def _torch_generators(device: str | None) -> list["torch.Generator"]:
    """List torch's global generators: the CPU's and that of `device`, if a GPU; none without a device."""
    if device is None:
        return []
    import torch  # Takes a second, and most of what needs seeds does without.

    sources = [torch.default_generator]
    # Nothing is drawn on a GPU that torch cannot use.
    if (place := torch.device(device)).type == "cuda" and torch.cuda.is_available():
        index = torch.cuda.current_device() if place.index is None else place.index
        sources.append(torch.cuda.default_generators[index])
    return sources


def read_global_states() -> tuple[object, ...]:
    """Read the states of the generators that `temporary_seeds` seeds on the CPU, to compare them."""
    import torch

    name, keys, *counters = np.random.get_state()
    state = torch.default_generator.get_state().numpy().tobytes()
    return state, (name, np.asarray(keys).tobytes(), *counters), random.getstate()


def _hash_to_int(text: str) -> int:
    """Hash a text to a seed of 128 bits."""
    # 128 bits are the size of the pool of NumPy's SeedSequence; SHA-256 makes near seeds and purposes
    # independent.
    return int.from_bytes(sha256(text.encode()).digest()[:16], "big")
