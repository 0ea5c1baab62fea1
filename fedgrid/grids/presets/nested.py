"""Values in nested mappings, each at a path of keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from fedgrid.engine.federation.errors import ConfigError


def value_at(values: Any, path: Iterable[str]) -> tuple[Any] | None:
    """Return the value at a path of keys of mappings and models, alone in a tuple; None if there is none."""
    for key in path:
        if isinstance(values, BaseModel):
            # `dict(values)` has the same keys, but takes most of the time of a grid of thousands of runs.
            fields = vars(values)
            values = fields if key in fields else values.model_extra or {}
        if not (isinstance(values, Mapping) and key in values):
            return None
        values = values[key]
    return (values,)


def with_value(values: Mapping[str, Any], path: Sequence[str], value: Any, source: str) -> dict[str, Any]:
    """Return nested mappings with `value` at `path`; mappings that are missing are made.

    Raises:
        ConfigError: if a key on the path has a plain value; the message begins with `source`.
    """
    key, *rest = path
    if not rest:
        return {**values, key: value}
    inner = values.get(key, {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{source}: {key} is {inner!r} and has no keys")
    return {**values, key: with_value(inner, rest, value, source)}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"clusterer": {"min_cluster_share": 0.3}}` of `{"clusterer.min_cluster_share": 0.3}`."""
    settings: dict[str, Any] = {}
    for key, value in values.items():
        settings = with_value(settings, key.split("."), value, key)
    return settings


def merge(below: Any, above: Any) -> Any:
    """Return the mapping `below` with the keys of `above` replaced, at any depth."""
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: merge(below.get(key), value) for key, value in above.items()}}
