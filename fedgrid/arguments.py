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

from fedgrid.redaction import redact_secrets

P = ParamSpec("P")
R = TypeVar("R")

CLASS_ORIGINS = {
    "Figure": "what a function of fedgrid.figures returns",
    "Records": "the `records` of a run",
    "Run": "one of the `runs` of a study",
    "Study": "what fedgrid.load and fedgrid.run_grid return",
}
"""Name of a class of ours -> where a user gets an instance from."""
NUMBER_CLASSES: Mapping[Any, Any] = {bool: (bool, Integral, np.bool_), int: Integral, float: Real}
"""Class of an annotation -> classes whose values it accepts."""
PARAMETER_STARS: Mapping[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
"""Kind of a parameter -> the stars before its name."""
LONGEST_VALUE = 80
"""Characters of a value in a message."""


class ArgumentError(TypeError, ValueError):
    """A public function got a wrong argument; the message has its name, its value, and what is expected."""


def check_arguments(**notes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function check its arguments by its signature before it starts.

    A value must be of its annotation: its class, the keys of a dict, and the items of a list. The decorated
    function raises `ArgumentError` for an argument that it does not have, lacks, or that is of another type.

    Args:
        notes: argument -> a hint that a message about it ends with.
    """

    def wrap_function(function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function."""
        takes = signature(function)
        name = function.__qualname__

        @wraps(function)
        def call_checked(*args: P.args, **kwargs: P.kwargs) -> R:
            """Check the arguments, then call the function."""
            try:
                given = takes.bind(*args, **kwargs).arguments
            except TypeError as error:
                # `from None`: a traceback through `bind` would hide the caller's line.
                raise ArgumentError(f"{name}: {error}; {_format_usage(takes, kwargs)}") from None
            # Not before the first call: annotations may name classes that are imported for types only.
            hints = get_type_hints(function)
            for argument, value in given.items():
                is_starred = takes.parameters[argument].kind in PARAMETER_STARS
                if not is_starred and argument in hints and not _matches_annotation(value, hints[argument]):
                    note = f"; {notes[argument]}" if argument in notes else ""
                    raise ArgumentError(
                        f"{name}: {argument} = {_format_value(value)}: expected "
                        f"{_describe_annotation(hints[argument])}{note}"
                    )
            return function(*args, **kwargs)

        return call_checked

    return wrap_function


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
        raise ArgumentError(f"unknown {what} {_format_value(given)}; {near}known: {', '.join(choices)}")


def nearest_name(given: str, names: Iterable[str]) -> str:
    """Suggest the nearest of some names, whatever their case, as a question; empty if none is near."""
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(given.lower(), by_lower, 1)
    return f"did you mean '{by_lower[near[0]]}'? " if near else ""


def _matches_annotation(value: Any, hint: Any) -> bool:
    """Check whether a value is of an annotation; true of annotations that values cannot be compared with."""
    of = get_origin(hint) or hint
    inner = get_args(hint)
    if of in (Union, UnionType):
        return any(_matches_annotation(value, one) for one in inner)
    if of is Literal:
        return value in inner
    if of is None or of is NoneType:
        return value is None
    if not isinstance(of, type):
        return True
    if not isinstance(value, NUMBER_CLASSES.get(of, of)):
        return False
    if issubclass(of, Mapping):
        return not inner or all(_matches_annotation(key, inner[0]) for key in value)
    if issubclass(of, Iterable) and not issubclass(of, str):
        # An iterator is not looked into: that would use it up.
        items = value if isinstance(value, list | tuple | set | frozenset) else ()
        return not isinstance(value, str) and (
            not inner or all(_matches_annotation(item, inner[0]) for item in items)
        )
    return True


def _describe_annotation(hint: Any) -> str:
    """Describe an annotation in a reader's words."""
    of = get_origin(hint) or hint
    inner = get_args(hint)
    if of in (Union, UnionType):
        return " or ".join(map(_describe_annotation, inner))
    if of is Literal:
        return " or ".join(map(repr, inner))
    if of is None or of is NoneType:
        return "None"
    if isinstance(of, type) and issubclass(of, Mapping):
        return f"a dict with keys that are {_describe_annotation(inner[0])}" if inner else "a dict"
    # An array is no list to a reader, although it can be iterated.
    if isinstance(of, type) and issubclass(of, Iterable) and inner and of is not np.ndarray:
        return f"a list of {_describe_annotation(inner[0])}"
    name = getattr(of, "__name__", str(of))
    return f"{name}, {CLASS_ORIGINS[name]}" if name in CLASS_ORIGINS else name


def _format_value(value: object) -> str:
    """Format a value in one short line, without secrets."""
    text = redact_secrets(repr(str(value) if isinstance(value, Path) else value))
    return text if len(text) <= LONGEST_VALUE and "\n" not in text else f"a {type(value).__name__}"


def _format_usage(takes: Signature, given: Mapping[str, object]) -> str:
    """Format how a function is called, and which parameter may be meant by one that it does not have."""
    own = [parameter for name, parameter in takes.parameters.items() if name != "self"]
    near = "".join(nearest_name(name, takes.parameters) for name in given if name not in takes.parameters)
    parts: list[str] = []
    for parameter in own:
        if parameter.kind is Parameter.KEYWORD_ONLY and "*" not in "".join(parts):
            parts.append("*")
        default = "" if parameter.default is Parameter.empty else "=..."
        parts.append(f"{PARAMETER_STARS.get(parameter.kind, '')}{parameter.name}{default}")
    return f"{near}it takes ({', '.join(parts)})"
