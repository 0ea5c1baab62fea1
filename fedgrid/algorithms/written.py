"""An algorithm's settings as a run writes them down."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from fedgrid.algorithms.contract.base import Settings
from fedgrid.algorithms.registry import ALGORITHMS


def written(name: str, settings: Settings) -> dict[str, Any]:
    """Return an algorithm's settings as a run writes them, so that `create` reads the same."""
    return {**settings.model_dump(mode="json"), **unlike_entry(name, settings)}


def unlike_entry(name: str, settings: Settings) -> dict[str, Any]:
    """Return the omitted keys that stand at their class's default while the entry has another one.

    `create` would take the entry's.
    """
    values, defaults = settings.model_dump(), ALGORITHMS[name].settings
    left_out = [key for key in type(settings).model_fields if key not in values]
    return {
        key: to_jsonable_python(getattr(settings, key))
        for key in left_out
        if getattr(settings, key) != getattr(defaults, key)
    }


def name_and_settings(algorithm: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the parts of `RunConfig.algorithm`."""
    return algorithm["name"], {key: value for key, value in algorithm.items() if key != "name"}
