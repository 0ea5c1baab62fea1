"""One line for what pydantic found wrong: the key, its place, and what is allowed."""

from difflib import get_close_matches

from pydantic import BaseModel, ValidationError

from engine.errors import ConfigError


def explain(error: ValidationError, model: type[BaseModel]) -> ConfigError:
    """Return the first finding of `error` in terms of the configuration's keys."""
    finding = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in finding["loc"])
    match finding["type"]:
        case "extra_forbidden":
            return ConfigError(_unknown_key(finding["loc"], model))
        case "missing":
            return ConfigError(f"{place} is missing")
        case "value_error":
            message = finding["msg"].removeprefix("Value error, ")
            return ConfigError(f"{place}: {message}" if place else message)
        case _:
            message = finding["msg"][0].lower() + finding["msg"][1:]
            return ConfigError(f"{place} = {finding['input']!r}: {message}")


def _unknown_key(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    key = str(location[-1])
    for part in location[:-1]:
        field = model.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return f"unknown key '{'.'.join(map(str, location))}'"
        model = annotation
    known = list(model.model_fields)
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    where = f" in {'.'.join(map(str, location[:-1]))}" if len(location) > 1 else ""
    return f"unknown key '{key}'{where}; {hint}allowed: {', '.join(known)}"
