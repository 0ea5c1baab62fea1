"""An algorithm that breaks the contract fails its run, in one line with the round and the plugin."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedgrid.algorithms.contract.checks import BrokenContract
from fedgrid.engine.federation.errors import FinalError, plugin_of


@contextmanager
def in_round(number: int) -> Iterator[None]:
    """Name the round, 0 before the first, and the plugin that the algorithm is of."""
    try:
        yield
    except BrokenContract as error:
        raise FinalError(f"round {number}: {plugin_of(error.of)}{error}") from error
