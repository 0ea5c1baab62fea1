"""One line for what pydantic found wrong: the key, its place, and what is allowed."""

from difflib import get_close_matches

from pydantic import BaseModel, ValidationError

from engine.errors import ConfigError


def explain(error: ValidationError, model: BaseModel | type[BaseModel]) -> ConfigError:
    """Return the first finding of `error` in terms of the configuration's keys.

    `model` is what was validated: the class, or an instance where a field's value knows more keys than
    its type does (an algorithm's clusterer).
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
            return ConfigError(f"{place} = {finding['input']!r}: expected keys, of {known}")
        case _:
            message = finding["msg"][0].lower() + finding["msg"][1:]
            return ConfigError(f"{place} = {finding['input']!r}: {message}")


def _unknown_key(location: tuple[str, ...], model: BaseModel | type[BaseModel]) -> str:
    *section, key = location
    known = _keys(_section(model, section))
    near = get_close_matches(key, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    where = f" in {'.'.join(section)}" if section else ""
    return f"unknown key '{key}'{where}; {hint}allowed: {', '.join(known)}"


def _section(
    model: BaseModel | type[BaseModel], location: Iterable[str]
) -> BaseModel | type[BaseModel]:
    """Follow the keys of `location` into `model`; every one of them names a section."""
    for key in location:
        annotation = model.__pydantic_fields__[key].annotation
        inner = getattr(model, key, annotation)
        model = inner if isinstance(inner, BaseModel) else annotation
    return model


def _keys(model: BaseModel | type[BaseModel]) -> list[str]:
    return list(model.__pydantic_fields__)
