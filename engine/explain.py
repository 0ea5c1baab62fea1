"""One line for what pydantic found wrong: the key, its place, and what is allowed."""

from difflib import get_close_matches
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from engine.errors import ConfigError

Model: TypeAlias = BaseModel | type[BaseModel]


def explain(error: ValidationError, model: Model) -> ConfigError:
    """Return the first finding of `error` in terms of the configuration's keys.

    `model` is what was validated; an instance says more than a type where a part may be one of several.
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
            section = _find(model, location)
            known = f" of {', '.join(_keys(section))}" if section is not None else ""
            return ConfigError(f"{place} = {finding['input']!r}: expected KEY: VALUE with keys{known}")
        case _:
            message = finding["msg"][0].lower() + finding["msg"][1:]
            return ConfigError(f"{place} = {finding['input']!r}: {message}")


def _unknown_key(location: tuple[str, ...], model: Model) -> str:
    *sections, key = location
    section = _find(model, tuple(sections))
    if section is None:
        return f"unknown key '{'.'.join(location)}'"
    near = get_close_matches(key, _keys(section), n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    where = f" in {'.'.join(sections)}" if sections else ""
    return f"unknown key '{key}'{where}; {hint}allowed: {', '.join(_keys(section))}"


def _keys(model: Model) -> list[str]:
    return list((model if isinstance(model, type) else type(model)).model_fields)


def _find(model: Model, location: tuple[str, ...]) -> Model | None:
    """Return the part of a configuration at `location`, None if that holds a plain value."""
    for name in location:
        if isinstance(model, BaseModel):
            inner = getattr(model, name, None)
        else:
            field = model.model_fields.get(name)
            inner = field.annotation if field else None
        if not (isinstance(inner, BaseModel) or (isinstance(inner, type) and issubclass(inner, BaseModel))):
            return None
        model = inner
    return model
