"""One line for what pydantic found wrong: the key, its place, and what is allowed."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from engine.errors import ConfigError

Model: TypeAlias = BaseModel | type[BaseModel]


def explain(error: ValidationError, model: Model) -> ConfigError:
    """Return the first finding of `error` in terms of the configuration's keys.

    `model` is what was validated: its class, or an instance where a value knows more keys than its
    field's type does (an algorithm's clusterer).
    """
    finding = error.errors(include_url=False, include_context=False)[0]
    location = tuple(str(part) for part in finding["loc"])
    place = ".".join(location)
    match finding["type"]:
        case "extra_forbidden":
            return ConfigError(_unknown_key(location, model))
        case "missing":
            return ConfigError(f"{place} is missing")
        case "value_error":
            message = finding["msg"].removeprefix("Value error, ")
            return ConfigError(f"{place}: {message}" if place else message)
        case "model_type":
            known = ", ".join(_keys(_section(model, location)))
            return ConfigError(f"{place} = {finding['input']!r}: expected KEY: VALUE with keys of {known}")
        case _:
            message = finding["msg"][0].lower() + finding["msg"][1:]
            return ConfigError(f"{place} = {finding['input']!r}: {message}")


def _unknown_key(location: tuple[str, ...], model: Model) -> str:
    *section, key = location
    known = _keys(_section(model, section))
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    where = f" in {'.'.join(section)}" if section else ""
    return f"unknown key '{key}'{where}; {hint}allowed: {', '.join(known)}"


def _section(model: Model, location: Iterable[str]) -> Model:
    """Follow the keys of `location`, each of which names a section, into `model`."""
    for key in location:
        section: Any = model.__pydantic_fields__[key].annotation
        model = getattr(model, key, section)
    return model


def _keys(model: Model) -> list[str]:
    return list(model.__pydantic_fields__)
