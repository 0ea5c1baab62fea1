"""Calls of a plugin's methods: their errors name its file, and the generators of the process are seeded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.errors import FinalError, find_plugin_file, find_plugin_line, is_code_error
from fedgrid.engine.federation.seeds import temporary_seeds


@contextmanager
def plugin_call_context(
    item: object, method: str, rng: np.random.Generator | None, device: str = "cpu"
) -> Iterator[None]:
    """Run a method that may be a plugin's: its errors name its file, and its random numbers are seeded.

    The method is called in the block of a `with`. For a method of this package the block runs as it is. An
    algorithm counts as a plugin's if one of its settings is, such as its clusterer.

    Args:
        item: the object whose method is called.
        method: name of the method.
        rng: seeds torch's, NumPy's and Python's generators for a plugin's method, which may draw from them;
            None: they are seeded already.
        device: the torch device whose generator is seeded. Default: `cpu`.

    Raises:
        FinalError: the plugin's code returned or received something other than it should.
    """
    settings = getattr(item, "settings", None)
    parts = (
        [value for _, value in settings if isinstance(value, Section)]
        if isinstance(settings, Section)
        else []
    )
    # The function as found on the object, as well as the classes: a plugin may inherit the method from this
    # package, or override it in a class of its own.
    called, kinds = getattr(item, method), [type(part) for part in (item, *parts)]
    if not any(map(is_plugin_code, (called, *kinds))):
        yield
        return
    try:
        with nullcontext() if rng is None else temporary_seeds(device, rng):
            yield
    except Exception as error:
        # An error of ours has its own message, and one within the plugin's code its line.
        is_ours = type(error).__module__.startswith("fedgrid.")
        plugin = next(
            filter(None, (find_plugin_file(called), *(find_plugin_file(kind, method) for kind in kinds))), ""
        )
        if not plugin or is_ours or find_plugin_line(error) or not is_code_error(error):
            raise
        where = f"{plugin}{type(item).__name__}.{method}"
        raise FinalError(f"{where}: {type(error).__name__}: {error}") from error


def is_plugin_code(item: type | Callable[..., object]) -> bool:
    """Check whether a class or a function is defined outside this package, in a plugin's file or package."""
    return str(item.__module__).partition(".")[0] != "fedgrid"
