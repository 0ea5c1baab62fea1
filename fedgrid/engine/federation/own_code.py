"""Calls of a plugin's methods: their errors name its file, and they draw from their own generator alone."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fedgrid.engine.federation.errors import FinalError, in_plugin, is_of_code, plugin_of

BY_RNG = "draw from rng, as in rng.random(), and give scikit-learn random_state=int(rng.integers(2**31))"
BY_TORCH = "draw with torch, which is seeded for each client and round"
"""What a plugin does in place of drawing from a generator of the whole process; a rule has no `rng`."""


@contextmanager
def own_code(item: object, method: str, instead: str = BY_RNG) -> Iterator[None]:
    """Call a method of an algorithm, a rule or the like in the block of a `with`, which may be a plugin's.

    An algorithm counts as a plugin's if one of its settings is, as a clusterer.

    Raises:
        FinalError: a plugin's code returned or took something else than what it should, or drew from a
            generator of the whole process, so that a repeated run would have other numbers.
    """
    parts = (item, *(value for _, value in getattr(item, "settings", ())))
    places = plugin_of(getattr(item, method)), *(plugin_of(type(part), method) for part in parts)
    plugin = next(filter(None, places), "")
    if not plugin:
        yield
        return
    before, where = _global_states(), f"{plugin}{type(item).__name__}.{method}"
    try:
        yield
    except Exception as error:
        # An error of ours has its own message, and one within the plugin's code its line.
        is_ours = type(error).__module__.startswith("fedgrid.")
        if is_ours or in_plugin(error) or not is_of_code(error):
            raise
        raise FinalError(f"{where}: {type(error).__name__}: {error}") from error
    after = _global_states()
    if drawn := [name for name, state in before.items() if state != after[name]]:
        raise FinalError(f"{where} drew from {drawn[0]}, which no seed of a run sets; {instead}")


def _global_states() -> dict[str, object]:
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    of_numpy = np.asarray(keys).tobytes(), *rest
    states: dict[str, object] = {"random": random.getstate(), "np.random": of_numpy}
    if "torch" in sys.modules:
        states["torch's generator"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states
