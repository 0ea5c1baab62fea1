"""Read and change values in nested mappings, each at a path of keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from fedgrid.engine.federation.errors import ConfigError


def find_value(values: Any, path: Iterable[str]) -> tuple[Any] | None:
    """Find the value at a path of keys of mappings and models, alone in a tuple; None if there is none.

    The tuple distinguishes the value None from a missing one.
    """
    for key in path:
        if isinstance(values, BaseModel):
            # `dict(values)` has the same keys, but takes most of the time of a grid of thousands of runs.
            fields = vars(values)
            values = fields if key in fields else values.model_extra or {}
        if not (isinstance(values, Mapping) and key in values):
            return None
        values = values[key]
    return (values,)


def set_value(values: Mapping[str, Any], path: Sequence[str], value: Any, source: str) -> dict[str, Any]:
    """Set `value` at `path` in a copy of nested mappings; missing mappings are created.

    Args:
        values: the mappings, which stay as they are.
        path: keys, at least one.
        value: any value.
        source: what the message of an error begins with.

    Raises:
        ConfigError: if a key on the path has a plain value.
    """
    key, *rest = path
    if not rest:
        return {**values, key: value}
    inner = values.get(key, {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{source}: {key} is {inner!r} and has no keys")
    return {**values, key: set_value(inner, rest, value, source)}


def nest_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert `{"clusterer.min_cluster_share": 0.3}` to `{"clusterer": {"min_cluster_share": 0.3}}`."""
    settings: dict[str, Any] = {}
    for key, value in values.items():
        settings = set_value(settings, key.split("."), value, key)
    return settings


def merge_mappings(below: Any, above: Any) -> Any:
    """Merge mappings at any depth; the keys of `above` replace those of `below`.

    A name below stands for a choice with settings, which `above` may change: `krum` and `{keep: 0.8}` are
    `{name: krum, keep: 0.8}`.
    """
    if isinstance(below, str) and isinstance(above, Mapping):
        below = {"name": below}
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: merge_mappings(below.get(key), value) for key, value in above.items()}}
