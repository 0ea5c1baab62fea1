"""Errors that a user can act on: each message says what was given, what is allowed and what to do next."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from errno import EACCES, EPERM, EROFS
from types import MappingProxyType
from typing import ClassVar, TypeAlias

Key: TypeAlias = tuple[str, ...]
"""Path of a configuration's key, as in `("training", "rounds")`."""


class FedgridError(Exception):
    """An error that is reported in one line, without a traceback. Its message holds no secret."""

    clean: ClassVar[Callable[[str], str]] = str
    """Takes secrets out of a message. The package sets it: numbers do not depend on how."""

    def __init__(self, message: str = "") -> None:
        super().__init__(FedgridError.clean(message))


class ConfigError(FedgridError, ValueError):
    """The user asked for something that does not exist or is not possible."""

    def __init__(self, message: str, key: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key: Key = tuple(key)
        """The configuration's key that the error is about, so that its place in a file can be named."""


class DataError(FedgridError):
    """Images are missing, damaged or do not fit together."""


class RunError(FedgridError):
    """A run stopped: the message starts with the client, the round and the cause."""


class FinalError(RunError):
    """A run stopped where it would stop again: it is not retried."""


class StorageError(RunError):
    """The storage cannot be read or written at present."""


class DeniedError(FinalError, StorageError):
    """The storage may not be read or written: it is mounted read-only, or rights are missing."""


def is_denied(error: BaseException) -> bool:
    """Return whether an error says that a file may not be read or written; waiting does not mend that."""
    return isinstance(error, DeniedError) or getattr(error, "errno", None) in (EROFS, EACCES, EPERM)


PLUGIN_MODULE = "fedgrid_plugin_"
"""Beginning of the name of the module that is a plugin's file."""


def in_plugin(error: BaseException) -> str:
    """Return where in a plugin's file an error comes from, as `plugin mine.py, line 12: `; empty if nowhere.

    It is the innermost such place: what the file calls may be ours, torch's or NumPy's.
    """
    place, step = "", error.__traceback__
    while step is not None:
        module = step.tb_frame.f_globals
        if str(module.get("__name__")).startswith(PLUGIN_MODULE):
            place = f"plugin {module['__file__']}, line {step.tb_lineno}: "
        step = step.tb_next
    return place


OF_CODE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)


def is_final(error: BaseException) -> bool:
    """Return whether a run that failed so would fail so again.

    Of a plugin's errors those of its code are, torch's about shapes among them; those of the disk, of memory,
    of a GPU and of Ray may pass.
    """
    if isinstance(error, FedgridError):
        return isinstance(error, FinalError | ConfigError)
    if is_denied(error):
        return True
    return bool(in_plugin(error)) and is_of_code(error)


def is_of_code(error: BaseException) -> bool:
    """Return whether an error is of code that runs, torch's about shapes too, and not of what it runs on."""
    of_torch = type(error) is RuntimeError and "CUDA" not in str(error)
    return of_torch or isinstance(error, OF_CODE)


def plugin_of(item: type | Callable[..., object], method: str = "") -> str:
    """Return which plugin's file a class or a function is of, as `plugin mine.py: `; empty if of none.

    With the line where the function begins, or this method of the class if it stands there too.
    """
    module = sys.modules.get(item.__module__)
    if module is None or not module.__name__.startswith(PLUGIN_MODULE):
        return ""
    code = getattr(getattr(item, method, item), "__code__", None)
    line = f", line {code.co_firstlineno}" if code and code.co_filename == module.__file__ else ""
    return f"plugin {module.__file__}{line}: "


ABBREVIATIONS = {
    "lr": "learning_rate",
    "bs": "batch_size",
    "batch": "batch_size",
    "epochs": "local_epochs",
    "num_rounds": "rounds",
    "num_clients": "clients",
    "name": "kind",
    "type": "kind",
    "wd": "weight_decay",
    "fraction": "participation",
    "overlap": "split",
    "balance": "split",
}
"""Of keys, as papers and other tools have them, too far from ours to be found by their letters."""


OF_PLUGINS = ("algorithm", "model", "dataset", "split")
"""What runs name, and plugins can have."""


def unknown(
    kind: str, given: str, choices: Iterable[str], also: Mapping[str, str] = MappingProxyType({})
) -> ConfigError:
    """Return the error for a name that is not in a registry, with the nearest known name.

    `also` are other names of known ones, in small letters.
    """
    choices, instead = list(choices), ""
    if kind in OF_PLUGINS:
        file = given if given.endswith(".py") else "FILE.py"
        instead = f"one of your own: --plugin {file}, and the name that it has there; "
    meant = hint(given, choices, also) or instead
    message = f"unknown {kind} '{given}'; {meant}known: {', '.join(choices)}"
    return ConfigError(message, (kind,))


def unknown_key(
    given: str,
    where: str,
    allowed: Iterable[str],
    key: Sequence[str] = (),
    inner: Mapping[str, str] = MappingProxyType({}),
) -> ConfigError:
    """Return the error for a key that a section does not have; `where` is the section, empty at the top.

    `inner` are keys of sections by their last part, as `rounds` -> `training.rounds`: one may be meant.
    """
    allowed = list(allowed)
    inside = f" in {where}" if where else ""
    meant = hint(given, allowed, inner=inner)
    return ConfigError(f"unknown key '{given}'{inside}; {meant}allowed: {', '.join(allowed) or 'none'}", key)


def hint(
    given: str,
    choices: Iterable[str],
    also: Mapping[str, str] = MappingProxyType({}),
    inner: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a question with the nearest known name, empty if none is near.

    `also` is as in `unknown`, `inner` as in `unknown_key`.
    """
    choices = list(choices)
    other = {name: meant for name, meant in also.items() if meant in choices}
    names = {**inner, **other, **{name: name for name in choices}}
    exact = next((word for word in (ABBREVIATIONS.get(given), given.lower()) if word in names), None)
    near = [exact] if exact else get_close_matches(given, names, n=1)
    near = near or get_close_matches(given.lower(), names, n=1)
    return f"did you mean '{names[near[0]]}'? " if near else ""


@contextmanager
def of_client(client: int, round_index: int | None) -> Iterator[None]:
    """Put the client and the round in front of an error's message; the error itself becomes its cause."""
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, FedgridError)
        cause = f"{error}" if is_ours else f"{in_plugin(error)}{type(error).__name__}: {error}"
        when = "its message" if round_index is None else f"round {round_index + 1}"
        kind = FinalError if is_final(error) else RunError
        raise kind(f"client {client}, {when}: {cause}") from error


def abbreviate(names: Sequence[str], number: int = 3) -> str:
    """Return the first few names for a message, and how many more there are."""
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return ", ".join(names[:number]) + more
