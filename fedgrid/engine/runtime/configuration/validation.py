"""Errors of pydantic in a configuration, as one line that names the key and what is allowed."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fedgrid.algorithms.contract.section import SectionType, find_default_name
from fedgrid.engine.federation.errors import ConfigError, Key, unknown_key_error
from fedgrid.engine.runtime.configuration.sections import (
    NOTHING,
    Model,
    find_section,
    list_classes,
    list_fields,
)


def explain_error(
    error: ValidationError,
    model: Model,
    inner: Mapping[str, str] = NOTHING,
    given: Mapping[str, Any] = NOTHING,
) -> ConfigError:
    """Convert pydantic's first finding to one line, in terms of the configuration's keys.

    Args:
        error: What pydantic raised.
        model: What was validated: a class, or an instance where a part may be one of several classes.
        inner: Keys of other sections, which one that does not exist here may mean; none by default.
        given: What was validated, if its names say of which classes its sections are; none by default.
    """
    finding = _find_first(error)
    location = _find_location(error)
    place = ".".join(location)
    match finding["type"]:
        case "extra_forbidden":
            return _build_unknown_key(location, model, inner, given)
        case "missing":
            lacking = [".".join(map(str, one["loc"])) for one in error.errors() if one["type"] == "missing"]
            message = f"{lacking[0]} is missing" if len(lacking) == 1 else f"{', '.join(lacking)} are missing"
        case "value_error":
            problem = finding["msg"].removeprefix("Value error, ")
            message = f"{place}: {problem}" if place else problem
        case "model_type":
            section = find_section(model, location, given)
            keys = f" of {', '.join(_list_keys(section))}" if section is not None else ""
            message = f"{place} = {finding['input']!r}: expected KEY: VALUE with keys{keys}"
        case "tuple_type" | "list_type":
            message = f"{place} = {finding['input']!r}: expected a list, as in [{finding['input']!r}]"
        case _:
            problem = finding["msg"][0].lower() + finding["msg"][1:]
            message = f"{place} = {finding['input']!r}: {problem}"
            if finding["type"].endswith(("_type", "_parsing")) and _may_be_null(model, location, given):
                message += ", or null"
    return ConfigError(message, location)


SectionType.explain = explain_error


def find_key(error: ConfigError) -> Key:
    """Find the key for which a run's configuration was refused, empty if the error names none.

    An algorithm's settings are validated on their own, so their locations lack the key `algorithm`.
    """
    if error.key:
        return error.key
    match error.__cause__:
        case ValidationError() as cause:
            return ("algorithm", *_find_location(cause))
        case ValueError():
            return ("algorithm",)
    return ()


def has_list_for_value(error: ConfigError) -> bool:
    """Check whether a configuration was refused because a list stands where one value is expected."""
    match error.__cause__:
        case ValidationError() as cause:
            finding = _find_first(cause)
            is_type = finding["type"].endswith("_type") or finding["type"] == "literal_error"
            return is_type and isinstance(finding["input"], list)
    # A list of models was looked up as one name, before pydantic saw it.
    return error.key == ("model",)


def map_inner_keys(model: Model) -> dict[str, str]:
    """Map each key of a section to the same with its section, as `rounds` -> `training.rounds`.

    For two keys of one name it is that of the first section.
    """
    places: dict[str, str] = {}
    for key in _list_keys(model):
        section = find_section(model, (key,))
        for inner in _list_keys(section) if section is not None else ():
            places.setdefault(inner, f"{key}.{inner}")
    return places


def _find_first(error: ValidationError) -> ErrorDetails:
    """Find the first finding; an unknown key comes before the key that is missing in its place."""
    findings = error.errors(include_url=False, include_context=False)
    first, *others = findings
    unknown = (other for other in others if other["type"] == "extra_forbidden")
    return next(unknown, first) if first["type"] == "missing" else first


def _find_location(error: ValidationError) -> Key:
    """Find the place of the first finding."""
    return tuple(str(part) for part in _find_first(error)["loc"])


def _build_unknown_key(
    location: Key, model: Model, inner: Mapping[str, str], given: Mapping[str, Any]
) -> ConfigError:
    """Build the error of a key that does not exist."""
    *sections, key = location
    section = find_section(model, tuple(sections), given)
    if section is None:
        return ConfigError(f"unknown key '{'.'.join(location)}'", location)
    owner = _find_owner(location, model) if sections else {}
    others = {**inner, **owner, **map_inner_keys(section)}
    return unknown_key_error(key, ".".join(sections), _list_keys(section), location, others)


def _find_owner(location: Key, model: Model) -> dict[str, str]:
    """Find which name of a choice has a key: `keep` -> `keep with aggregate.name=krum`; empty if none."""
    *sections, choice, key = location
    parent = find_section(model, tuple(sections))
    field = None if parent is None else list_fields(parent).get(choice)
    classes = () if field is None else list_classes(field.annotation)
    owner = next((kind for kind in classes if key in kind.model_fields), None)
    return {} if owner is None else {key: f"{key} with {choice}.name={find_default_name(owner)}"}


def _list_keys(model: Model) -> list[str]:
    """List the keys of a section."""
    return list(list_fields(model))


def _may_be_null(model: Model, location: Key, given: Mapping[str, Any]) -> bool:
    """Check whether a key may be null."""
    *sections, key = location
    section = find_section(model, tuple(sections), given)
    field = None if section is None else list_fields(section).get(key)
    return field is not None and type(None) in get_args(field.annotation)
