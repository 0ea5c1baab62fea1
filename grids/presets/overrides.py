"""What a preset says about some of its runs only: `when` these values of the axes meet, `then` these keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.errors import ConfigError, unknown_key
from fedgrid.engine.run_config import PLUGINS, RunConfig
from fedgrid.grids.presets.axes import AXES, Axes, Choice, choose
from fedgrid.grids.presets.yaml_file import Place, at

SECTIONS = {
    name: tuple(field.annotation.model_fields)
    for name, field in RunConfig.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
"""The keys of a run that have keys themselves."""

OVERRIDABLE = tuple(
    key for key in RunConfig.model_fields if (key not in AXES or key == "algorithm") and key != PLUGINS
)


@dataclass(frozen=True, eq=False)
class Override:
    """Keys for the runs where every axis of `when` has one of its values."""

    when: Choice
    then: Mapping[str, Any]
    place: Place
    """Of `then`."""

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Say whether it is about the run whose axes have these labels."""
        return all(labels[axis] in allowed for axis, allowed in self.when.items())


def read_overrides(given: Any, axes: Axes, place: Place) -> tuple[Override, ...]:
    """Return the overrides that a preset lists; `axes` are what it can speak of.

    Raises:
        ConfigError: for a key or value that does not exist, and for a `when` that can never hold.
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
    for key, known in (("when", AXES), ("then", OVERRIDABLE)):
        if not entry.get(key):
            with at(place):
                raise ConfigError(f"an override needs {key}: with keys such as {', '.join(known)}")
        require_keys(key, entry[key], known, place.under(key))
    _check_keys(entry["then"], place.under("then"))
    return Override(choose(entry["when"], axes, place.under("when")), entry["then"], place.under("then"))


def _check_keys(then: Mapping[Any, Any], place: Place) -> None:
    for key, value in then.items():
        with at(place.under(str(key))):
            if key in AXES and key != "algorithm":
                raise ConfigError(f"{key} in then: an axis cannot change; allowed: {', '.join(OVERRIDABLE)}")
            if key not in OVERRIDABLE:
                raise unknown_key(str(key), "then", OVERRIDABLE)
            if key == "algorithm" and (not isinstance(value, Mapping) or "name" in value):
                raise ConfigError(
                    f"then.algorithm = {value!r}: expected settings only, as in {{cooldown: 40}}"
                )
        if key in SECTIONS:
            require_keys(f"then.{key}", value, SECTIONS[key], place.under(str(key)))


def require_keys(name: str, value: Any, known: Sequence[str], place: Place) -> None:
    """Check that a value has keys.

    Raises:
        ConfigError: otherwise; names the first that are `known`.
    """
    if not isinstance(value, Mapping):
        with at(place):
            raise ConfigError(f"{name} = {value!r}: expected keys such as {', '.join(known[:3])}")


def merge(below: Any, above: Any) -> Any:
    """Return `below` with the keys of `above` replaced, at any depth."""
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: merge(below.get(key), value) for key, value in above.items()}}
