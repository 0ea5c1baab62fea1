"""Random generators: a run has one for each (seed, purpose, client, round), and no global one."""

from hashlib import sha256

import numpy as np


def generator(seed: int, purpose: str, *, client: int = -1, round_index: int = -1) -> np.random.Generator:
    """Return the generator of a purpose, independent of all others and of the order of calls.

    Args:
        seed: the run's seed.
        purpose: a unique text, such as `batches`.
        client: the client, if the purpose has one generator per client.
        round_index: the round, from 0, if the purpose has one generator per round.
    """
    key = f"{seed}/{purpose}/{client}/{round_index}"
    return np.random.default_rng(int.from_bytes(sha256(key.encode()).digest()[:16], "big"))
