"""Errors that a user can act on: each message says what was given, what is allowed and what to do next.

One class per kind of failure decides what a caller does about it: report it (`ConfigError`, `DataError`),
retry the run (`RunError`), give up (`FinalError`) or wait for the storage (`StorageError`).
"""

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
    """An error that is reported in one line, without a traceback; its message holds no secret.

    All errors that fedgrid raises for a user's mistake, for data, runs and storages are of this class, so
    that one `except` catches them. A mistake in fedgrid itself raises another class, with its traceback; only
    within a client's work it becomes the cause of a `RunError` (`client_error_context`).

    Args:
        message: the line that is reported; secrets in it are masked as the error is made. Default: empty.

    Example:
        >>> import fedgrid
        >>> try:
        ...     fedgrid.RunConfig(dataset="digits")
        ... except fedgrid.FedgridError as error:
        ...     print(error)
        clients, algorithm, seed, model, training are missing
        >>> print(fedgrid.FedgridError("no answer from https://me:secret@host"))
        no answer from https://***@host
    """

    clean: ClassVar[Callable[[str], str]] = str
    """Masks the secrets in a message. The package sets it when it is imported, and not here: this module is
    part of a run's code digest, and masking changes no number."""

    def __init__(self, message: str = "") -> None:
        super().__init__(FedgridError.clean(message))


class ConfigError(FedgridError, ValueError):
    """A configuration names something that does not exist, or values that cannot be combined.

    Args:
        message: the line that is reported.
        key: path of the configuration's key, as `("training", "rounds")`. Default: no key.
    """

    def __init__(self, message: str, key: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key: Key = tuple(key)
        """The configuration's key that the error is about, so that its place in a file can be named."""


class DataError(FedgridError):
    """Examples are missing, damaged, or do not fit together."""


class RunError(FedgridError):
    """A run stopped, and may be retried. An error of a client starts with the client and the round."""


class FinalError(RunError):
    """A run stopped and would stop at the same place again, so it is not retried."""


class StorageError(RunError):
    """The storage cannot be read or written at present; a later attempt may succeed."""


class DeniedError(FinalError, StorageError):
    """The storage may not be read or written: it is mounted read-only, or rights are missing."""


def is_denied(error: BaseException) -> bool:
    """Check whether an error says that a file may not be read or written; waiting does not mend that."""
    return isinstance(error, DeniedError) or getattr(error, "errno", None) in (EROFS, EACCES, EPERM)


PLUGIN_MODULE = "fedgrid_plugin_"
"""Prefix of the name under which a plugin's file is imported as a module."""


def find_plugin_line(error: BaseException) -> str:
    """Find the line of a plugin that an error comes from, for the start of a message.

    As `plugin mine.py, line 12: `; empty if there is none. It is the innermost such line: the plugin may
    have called fedgrid, torch or NumPy, which then raised the error.
    """
    place, step = "", error.__traceback__
    # No early exit: the last frame of a plugin is the innermost one, and frames of libraries may follow it.
    while step is not None:
        module = step.tb_frame.f_globals
        if str(module.get("__name__")).startswith(PLUGIN_MODULE):
            place = f"plugin {module['__file__']}, line {step.tb_lineno}: "
        step = step.tb_next
    return place


CODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
"""Built-in errors that point to a mistake in code. `OSError` and `MemoryError` are not among them: they may
pass."""


def is_final(error: BaseException) -> bool:
    """Check whether a run that failed with this error would fail again.

    Errors of a plugin's code would, torch's about shapes among them. Errors of the disk, of memory, of a GPU
    and of Ray may pass. So may an unexpected error in fedgrid's own code: retries cost little, and its cause
    may be the machine.
    """
    if isinstance(error, FedgridError):
        return isinstance(error, FinalError | ConfigError)
    if is_denied(error):
        return True
    return bool(find_plugin_line(error)) and is_code_error(error)


def is_code_error(error: BaseException) -> bool:
    """Check whether an error comes from a mistake in code rather than from the machine that runs it."""
    # torch raises a bare RuntimeError for shapes that do not fit and for a GPU without memory; only the text
    # tells them apart. Subclasses, such as OutOfMemoryError, are the machine's.
    is_torch_error = type(error) is RuntimeError and "CUDA" not in str(error)
    return is_torch_error or isinstance(error, CODE_ERRORS)


def find_plugin_file(item: type | Callable[..., object], method: str = "") -> str:
    """Find the plugin that defines a class or function, for the start of a message.

    As `plugin mine.py, line 3: `; empty if it is not of a plugin.

    Args:
        item: the class or function.
        method: a method of the class, whose line is named if the same file defines it; otherwise no line is
            named.
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
"""Names as papers and other tools write them -> ours, which share too few letters with them to be guessed."""


PLUGIN_KINDS = ("algorithm", "model", "dataset", "split")
"""Kinds of names in a run that a plugin can define."""


def unknown_name_error(
    kind: str, given: str, choices: Iterable[str], aliases: Mapping[str, str] = MappingProxyType({})
) -> ConfigError:
    """Build the error for a name that is not in a registry; it suggests the nearest name.

    Args:
        kind: what the name stands for, which is also the configuration's key, as `model`.
        given: the unknown name.
        choices: the names of the registry.
        aliases: other spellings in small letters -> name of the registry. Default: none.
    """
    choices, plugin_hint = list(choices), ""
    if kind in PLUGIN_KINDS:
        file = given if given.endswith(".py") else "FILE.py"
        plugin_hint = f"one of your own: --plugin {file}, and the name that it has there; "
    suggestion = suggest_name(given, choices, aliases) or plugin_hint
    message = f"unknown {kind} '{given}'; {suggestion}known: {', '.join(choices)}"
    return ConfigError(message, (kind,))


def unknown_key_error(
    given: str,
    where: str,
    allowed: Iterable[str],
    key: Sequence[str] = (),
    nested_keys: Mapping[str, str] = MappingProxyType({}),
) -> ConfigError:
    """Build the error for a key that a section does not have; it suggests the nearest key.

    Args:
        given: the unknown key.
        where: the section, as `training`; empty at the top.
        allowed: the keys that the section has.
        key: path of the unknown key in the configuration. Default: not known.
        nested_keys: last part of a key of another section -> its whole path, as `rounds` ->
            `training.rounds`, for a key that is written without its section. Default: none.
    """
    allowed = list(allowed)
    inside = f" in {where}" if where else ""
    suggestion = suggest_name(given, allowed, nested_keys=nested_keys)
    return ConfigError(
        f"unknown key '{given}'{inside}; {suggestion}allowed: {', '.join(allowed) or 'none'}", key
    )


def suggest_name(
    given: str,
    choices: Iterable[str],
    aliases: Mapping[str, str] = MappingProxyType({}),
    nested_keys: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Suggest the nearest name as a question, such as `did you mean 'fedavg'? `; empty if none is near.

    Args:
        given: what the user wrote.
        choices: the names that exist.
        aliases: other spellings in small letters -> one of `choices`. Default: none.
        nested_keys: last part of a nested key -> its whole path. Default: none.
    """
    choices = list(choices)
    spellings = {name: meant for name, meant in aliases.items() if meant in choices}
    names = {**nested_keys, **spellings, **{name: name for name in choices}}
    # An abbreviation or another case of the letters is a certain match; letters alone are a guess.
    exact = next((word for word in (ABBREVIATIONS.get(given), given.lower()) if word in names), None)
    near = [exact] if exact else get_close_matches(given, names, n=1)
    # Most names are in small letters: `MNISTT` shares no letter with `mnist`.
    near = near or get_close_matches(given.lower(), names, n=1)
    return f"did you mean '{names[near[0]]}'? " if near else ""


@contextmanager
def client_error_context(client: int, round_index: int | None) -> Iterator[None]:
    """Put the client and the round in front of an error's message; the error itself becomes its cause.

    Args:
        client: the client whose work runs in the `with` block, from 0.
        round_index: the round, from 0; None while the client prepares the message that it sends before round
            1: the error then starts with `client 3, its message: `.

    Raises:
        FinalError: the error would come again, see `is_final`.
        RunError: any other error of the block.
    """
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, FedgridError)
        cause = f"{error}" if is_ours else f"{find_plugin_line(error)}{type(error).__name__}: {error}"
        when = "its message" if round_index is None else f"round {round_index + 1}"
        kind = FinalError if is_final(error) else RunError
        raise kind(f"client {client}, {when}: {cause}") from error


def abbreviate_names(names: Sequence[str], number: int = 3) -> str:
    """Join the first few names for a message, and count the others."""
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return ", ".join(names[:number]) + more
