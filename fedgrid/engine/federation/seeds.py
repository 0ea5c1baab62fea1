"""Random generators: a run has one for each (root seed, purpose, client, round), and no global one.

A root seed is a digest of a scenario's name and the run's seed. All algorithms of a scenario and seed share
their numbers; runs of different scenarios are independent, as tests over scenarios assume.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import numpy as np

from fedgrid.engine.federation.errors import FinalError, plugin_of

BY_RNG = "draw from rng, as in rng.random(), and give scikit-learn random_state=int(rng.integers(2**31))"
"""What a plugin does in place of drawing from a generator of the whole process."""


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
def own_draws(item: object, method: str, instead: str = BY_RNG) -> Iterator[None]:
    """Check that a method of a plugin's object draws no number from a generator of the whole process.

    Raises:
        FinalError: it did, so that a repeated run would have other numbers; says what to do `instead`.
    """
    plugin = plugin_of(type(item), method)
    before = _global_states() if plugin else {}
    yield
    after = _global_states() if plugin else {}
    if drawn := [name for name, state in before.items() if state != after[name]]:
        raise FinalError(
            f"{plugin}{type(item).__name__}.{method} drew from {drawn[0]}, which no seed of a run sets; "
            f"{instead}"
        )


def _global_states() -> dict[str, object]:
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    of_numpy = np.asarray(keys).tobytes(), *rest
    states: dict[str, object] = {"random": random.getstate(), "np.random": of_numpy}
    if "torch" in sys.modules:
        states["torch's generator"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:16], "big")
