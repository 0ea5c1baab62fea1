"""Import modules in a thread while the process waits for something else."""

from contextlib import suppress
from importlib import import_module
from threading import Thread


def import_in_thread(*modules: str) -> None:
    """Import modules in a thread. One that cannot be imported is reported where it is imported again."""
    # No daemon: Python would end it within an import, which can crash the process at its end.
    Thread(target=_import_modules, args=modules, name="imports").start()


def _import_modules(*modules: str) -> None:
    """Import modules; errors are ignored here, since they come up again where the module is needed."""
    for module in modules:
        with suppress(Exception):
            import_module(module)
