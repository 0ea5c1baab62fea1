"""Changes of `--set`: a path of keys and its new value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.yaml_file import parse_value


@dataclass(frozen=True)
class Change:
    """One `--set`."""

    text: str
    keys: tuple[str, ...]
    value: Any

    @classmethod
    def parse(cls, text: str) -> "Change":
        """Return the change that `key.key=value` describes.

        Raises:
            ConfigError: for any other text.
        """
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {text}: expected KEY=VALUE, as in training.rounds=5")
        return cls(text, tuple(key.split(".")), parse_value(value, f"--set {text}"))

    def apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` with this change.

        Raises:
            ConfigError: if a key on the path has a plain value.
        """
        return with_value(values, self.keys, self.value, f"--set {self.text}")


def with_value(values: Mapping[str, Any], path: Sequence[str], value: Any, source: str) -> dict[str, Any]:
    """Return nested mappings with `value` at `path`; mappings that are missing are made.

    Raises:
        ConfigError: if a key on the path has a plain value; begins with `source`.
    """
    key, *rest = path
    if not rest:
        return {**values, key: value}
    inner = values.get(key, {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{source}: {key} is {inner!r} and has no keys")
    return {**values, key: with_value(inner, rest, value, source)}
