"""Overrides: keys for some runs of a grid. `when` selects the runs by their axes, `then` sets their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.engine.federation.configuration.run_config import SETTABLE
from fedgrid.engine.federation.errors import ConfigError, unknown_key
from fedgrid.engine.runtime.configuration.complete import INNER
from fedgrid.grids.presets.axes import Axes, Choice, allows, choose
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SECTIONS, SPLIT, has
from fedgrid.grids.presets.yaml_file import Place, at

OVERRIDABLE = tuple(key for key in SETTABLE if key not in AXES or key in (ALGORITHM, SPLIT))
"""Keys that `then` may set."""
EXAMPLES = {ALGORITHM: "{cooldown: 40}", SPLIT: "{draws: 100}"}
"""Axes of which `then` may set the settings."""


@dataclass(frozen=True, eq=False)
class Override:
    """Keys for the runs where every axis of `when` has one of its values."""

    when: Choice
    then: Mapping[str, Any]
    place: Place
    """The line of `then`."""

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether it applies to the run whose axes have these labels."""
        return allows(self.when, labels)


def read_overrides(given: Any, axes: Axes, place: Place) -> tuple[Override, ...]:
    """Return the overrides that a preset lists, checked against its `axes`.

    Raises:
        ConfigError: for a key or value that does not exist, a `when` that can never hold, and a `then` that
            sets an axis.
    """
    if not isinstance(given, list):
        with at(place):
            raise ConfigError(f"overrides = {given!r}: expected a list of when: {{...}} then: {{...}}")
    return tuple(_read(entry, axes, place.under(index)) for index, entry in enumerate(given))


def _read(entry: Any, axes: Axes, place: Place) -> Override:
    require_keys("overrides", entry, ("when", "then"), place)
    for key in entry:
        if key not in ("when", "then"):
            with at(place.under(str(key))):
                raise unknown_key(str(key), "overrides", ("when", "then"))
    for key, known in (("when", tuple(axes)), ("then", OVERRIDABLE)):
        if not entry.get(key):
            with at(place):
                raise ConfigError(f"an override needs {key}: with keys such as {', '.join(known)}")
        require_keys(key, entry[key], known, place.under(key))
    _check_keys(entry["then"], axes, place.under("then"))
    return Override(choose(entry["when"], axes, place.under("when")), entry["then"], place.under("then"))


def _check_keys(then: Mapping[Any, Any], axes: Axes, place: Place) -> None:
    for key, value in then.items():
        with at(place.under(str(key))):
            if key in AXES and key not in OVERRIDABLE:
                raise ConfigError(f"{key} in then: an axis cannot change; allowed: {', '.join(OVERRIDABLE)}")
            if key not in OVERRIDABLE:
                raise unknown_key(str(key), "then", OVERRIDABLE, inner=INNER)
            if key in EXAMPLES and (not isinstance(value, Mapping) or {"name", "kind"} & value.keys()):
                raise ConfigError(f"then.{key} = {value!r}: expected settings only, as in {EXAMPLES[key]}")
        if key in SECTIONS:
            require_keys(f"then.{key}", value, SECTIONS[key], place.under(str(key)))
    for axis in axes:
        if axis not in AXES and has(then, path := axis.split(".")):
            with at(place.under(*path)):
                raise ConfigError(f"{axis} in then: an axis of this grid cannot change; leave it out")


def require_keys(name: str, value: Any, known: Sequence[str], place: Place) -> None:
    """Check that a value is a mapping.

    Raises:
        ConfigError: if it is not; names the first of the `known` keys.
    """
    if not isinstance(value, Mapping):
        with at(place):
            raise ConfigError(f"{name} = {value!r}: expected keys such as {', '.join(known[:3])}")


def merge(below: Any, above: Any) -> Any:
    """Return the mapping `below` with the keys of `above` replaced, at any depth."""
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: merge(below.get(key), value) for key, value in above.items()}}
