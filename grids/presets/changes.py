"""What `--set` asks for: a path of keys and the value that replaces what is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.engine.errors import ConfigError
from fedgrid.grids.presets.yaml_file import parse_value


@dataclass(frozen=True)
class Change:
    """One `--set`."""

    text: str
    keys: tuple[str, ...]
    value: Any

    @classmethod
    def parse(cls, text: str) -> "Change":
        """Return what `key.key=value` says.

        Raises:
            ConfigError: if it does not read like this.
        """
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {text}: expected KEY=VALUE, as in training.rounds=5")
        return cls(text, tuple(key.split(".")), parse_value(value, f"--set {text}"))

    def apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` with this change.

        Raises:
            ConfigError: if a key on the way has no keys itself.
        """
        return self._with(values, self.keys)

    def _with(self, values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
        key, *rest = keys
        if not rest:
            return {**values, key: self.value}
        inner = values.get(key, {})
        if not isinstance(inner, Mapping):
            raise ConfigError(f"--set {self.text}: {key} is {inner!r}, it has no keys")
        return {**values, key: self._with(inner, rest)}
