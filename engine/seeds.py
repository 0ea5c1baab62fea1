"""All randomness of a run: one generator for each (seed, purpose, client, round), none global."""

from hashlib import sha256

import numpy as np


def generator(seed: int, purpose: str, *, client: int = -1, round_index: int = -1) -> np.random.Generator:
    """Return the generator of one purpose, independent of all others and of the order of calls."""
    key = f"{seed}/{purpose}/{client}/{round_index}"
    return np.random.default_rng(int.from_bytes(sha256(key.encode()).digest()[:16], "big"))
