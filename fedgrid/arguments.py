"""Checks of the arguments of public functions: a mistake gets one line that says what is expected."""

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fedgrid.redaction import redacted

P = ParamSpec("P")
R = TypeVar("R")

ORIGINS = {
    "Figure": "what a function of fedgrid.figures returns",
    "Records": "the `records` of a run",
    "Run": "one of the `runs` of a study",
    "Study": "what fedgrid.load and fedgrid.run_grid return",
}
"""Name of a class of ours -> where a user gets an instance from."""
NUMBERS: Mapping[Any, Any] = {bool: (bool, Integral, np.bool_), int: Integral, float: Real}
"""Class of an annotation -> classes whose values it accepts."""
STARS: Mapping[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
"""Kind of a parameter -> the stars before its name."""
LONGEST = 80
"""Characters of a value in a message."""


class ArgumentError(TypeError, ValueError):
    """A public function got a wrong argument; the message has its name, its value, and what is expected."""


def checked(**notes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function check its arguments by its signature before it starts.

    A value must be of its annotation: its class, the keys of a dict, and the items of a list. The decorated
    function raises `ArgumentError` for an argument that it does not have, lacks, or that is of another type.

    Args:
        notes: argument -> a hint that a message about it ends with.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function."""
        takes = signature(function)
        name = function.__qualname__

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            """Check the arguments, then call the function."""
            try:
                given = takes.bind(*args, **kwargs).arguments
            except TypeError as error:
                # `from None`: a traceback through `bind` would hide the caller's line.
                raise ArgumentError(f"{name}: {error}; {_usage(takes, kwargs)}") from None
            # Not before the first call: annotations may name classes that are imported for types only.
            hints = get_type_hints(function)
            for argument, value in given.items():
                is_starred = takes.parameters[argument].kind in STARS
                if not is_starred and argument in hints and not _fits(value, hints[argument]):
                    note = f"; {notes[argument]}" if argument in notes else ""
                    raise ArgumentError(
                        f"{name}: {argument} = {_shown(value)}: expected {_words(hints[argument])}{note}"
                    )
            return function(*args, **kwargs)

        return call

    return decorate


def check_choice(what: str, given: object, choices: Collection[str]) -> None:
    """Check that a name is one of the choices.

    Args:
        what: what messages call the name.
        given: the name.
        choices: the allowed names.

    Raises:
        ArgumentError: it is none of them; suggests the nearest.
    """
    if given not in choices:
        near = nearest_name(str(given), choices)
        raise ArgumentError(f"unknown {what} {_shown(given)}; {near}known: {', '.join(choices)}")


def nearest_name(given: str, names: Iterable[str]) -> str:
    """Suggest the nearest of some names, whatever their case, as a question; empty if none is near."""
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), by_lower, 1)
    return f"did you mean '{by_lower[near[0]]}'? " if near else ""


def _fits(value: Any, hint: Any) -> bool:
    """Check whether a value is of an annotation; true of annotations that values cannot be compared with."""
    of = get_origin(hint) or hint
    inner = get_args(hint)
    if of in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if of is Literal:
        return value in inner
    if of is None or of is NoneType:
        return value is None
    if not isinstance(of, type):
        return True
    if not isinstance(value, NUMBERS.get(of, of)):
        return False
    if issubclass(of, Mapping):
        return not inner or all(_fits(key, inner[0]) for key in value)
    if issubclass(of, Iterable) and not issubclass(of, str):
        # An iterator is not looked into: that would use it up.
        items = value if isinstance(value, list | tuple | set | frozenset) else ()
        return not isinstance(value, str) and (not inner or all(_fits(item, inner[0]) for item in items))
    return True


def _words(hint: Any) -> str:
    """Describe an annotation in a reader's words."""
    of = get_origin(hint) or hint
    inner = get_args(hint)
    if of in (Union, UnionType):
        return " or ".join(map(_words, inner))
    if of is Literal:
        return " or ".join(map(repr, inner))
    if of is None or of is NoneType:
        return "None"
    if isinstance(of, type) and issubclass(of, Mapping):
        return f"a dict with keys that are {_words(inner[0])}" if inner else "a dict"
    # An array is no list to a reader, although it can be iterated.
    if isinstance(of, type) and issubclass(of, Iterable) and inner and of is not np.ndarray:
        return f"a list of {_words(inner[0])}"
    name = getattr(of, "__name__", str(of))
    return f"{name}, {ORIGINS[name]}" if name in ORIGINS else name


def _shown(value: object) -> str:
    """Format a value in one short line, without secrets."""
    text = redacted(repr(str(value) if isinstance(value, Path) else value))
    return text if len(text) <= LONGEST and "\n" not in text else f"a {type(value).__name__}"


def _usage(takes: Signature, given: Mapping[str, object]) -> str:
    """Format how a function is called, and which parameter may be meant by one that it does not have."""
    own = [parameter for name, parameter in takes.parameters.items() if name != "self"]
    near = "".join(nearest_name(name, takes.parameters) for name in given if name not in takes.parameters)
    parts: list[str] = []
    for parameter in own:
        if parameter.kind is Parameter.KEYWORD_ONLY and "*" not in "".join(parts):
            parts.append("*")
        default = "" if parameter.default is Parameter.empty else "=..."
        parts.append(f"{STARS.get(parameter.kind, '')}{parameter.name}{default}")
    return f"{near}it takes ({', '.join(parts)})"
