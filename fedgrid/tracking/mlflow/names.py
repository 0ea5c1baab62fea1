"""Names of metrics and parameters in MLflow."""

from collections.abc import Mapping
from typing import Any


def plain(key: str) -> str:
    """Return the name of a metric without its section."""
    return key.rpartition("/")[2]


def flatten(params: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return `{"split.alpha": "1.0"}` of `{"split": {"alpha": 1.0}}`."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat
