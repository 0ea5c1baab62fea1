"""The content of a grid before it is expanded: axes with their values, shared keys, overrides, exclusions."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from fedgrid.algorithms.registry import ARENA, NAMES_IN_PAPERS, explain_missing_name, list_arena_members
from fedgrid.engine.federation.errors import ConfigError, suggest_name, unknown_name_error
from fedgrid.engine.runtime.configuration.complete import DEFAULTS
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SPLIT, SPLIT_KIND, set_key, takes_list
from fedgrid.grids.presets.yaml_file import Place, parse_value, parse_values, prefix_errors
from fedgrid.tracking.scoring.selection import Condition, find_choice_key, format_value, read_conditions

MOST_SEEDS = 10_000
"""Most seeds in one range: more are a typing error that would exhaust the memory."""


@dataclass(frozen=True, eq=False)
class GivenValue:
    """A value that a file or an option gives: one of an axis, or of a key that all runs share."""

    value: Any
    place: Place | None = None
    """Line in a file; default None: a default value, or one of the command line."""
    is_default: bool = False
    """Whether the user has not given it; default False.

    A default split is replaced by the data set's, default clients by the number that this split defines.
    """

    # Cached, because every combination of values is compared by its labels.
    @cached_property
    def label(self) -> str:
        """Value as text, with the settings of an algorithm, a split or another choice."""
        return format_value(self.value)

    @cached_property
    def name(self) -> str:
        """Name of an algorithm, a split or another choice, with or without settings; else the label."""
        key = find_choice_key(self.value) if isinstance(self.value, Mapping) else None
        return self.label if key is None else str(self.value[key])

    @cached_property
    def labels(self) -> frozenset[str]:
        """What filters compare: a name selects every value of that name, with settings only that one."""
        return frozenset((self.label, self.name))


Axes: TypeAlias = Mapping[str, tuple[GivenValue, ...]]
Choice: TypeAlias = Mapping[str, frozenset[str]]
"""Axis -> allowed labels; a missing axis is not restricted."""


def is_allowed(choice: Choice, items: Mapping[str, GivenValue]) -> bool:
    """Check whether a choice allows a run whose axes have these values."""
    return all(not allowed.isdisjoint(items[axis].labels) for axis, allowed in choice.items())


@dataclass(frozen=True, eq=False)
class Override:
    """Keys for the runs in which every axis of `when` has one of its values."""

    when: Choice
    then: Mapping[str, Any]
    place: Place
    """Line of `then`."""


@dataclass(frozen=True)
class Change:
    """An override of the command line: a path of keys and its new value, or several values of an axis."""

    text: str
    keys: tuple[str, ...]
    values: tuple[Any, ...]

    @classmethod
    def from_text(cls, text: str) -> "Change":
        """Parse `key.key=value`, or `key.key=value,value`.

        Raises:
            ConfigError: for any other text.
        """
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{text}: expected KEY=VALUE, as in training.rounds=5")
        if not value.strip():
            raise ConfigError(f"{text}: no value; expected KEY=VALUE, and null for none")
        # The plural is accepted too, as in `seeds=0..4` and in files.
        key = key if key in AXES or key.removesuffix("s") not in AXES else key.removesuffix("s")
        # The path of the user's own data may have commas.
        parse = parse_values if key != "dataset" or ":" not in value else lambda *given: [parse_value(*given)]
        return cls(text, tuple(key.split(".")), tuple(parse(value, text)))

    @property
    def axis(self) -> str:
        """Axis to which the change gives values, if it gives several."""
        key = ".".join(self.keys)
        # Several names of algorithms are values of the axis; a single one changes the name and keeps the
        # settings.
        is_name = key == f"{ALGORITHM}.name" and (len(self.values) > 1 or isinstance(self.values[0], list))
        return SPLIT if key == SPLIT_KIND else ALGORITHM if is_name else key

    def axis_values(self) -> list[Any]:
        """List the values of the axis: a list means several, unless the key's values are lists themselves."""
        if len(self.values) == 1 and isinstance(self.values[0], list) and not takes_list(self.axis):
            return self.values[0]
        return list(self.values)

    @property
    def gives_axis(self) -> bool:
        """Whether it gives several values, or a list of one."""
        return self.axis_values() != [self.values[0]]

    def apply_to(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the change to nested values, which stay as they are.

        Args:
            values: the keys of a run.

        Returns:
            The changed values.

        Raises:
            ConfigError: if a key on the path has a plain value, or the change has several values.
        """
        if len(self.values) > 1:
            raise ConfigError(f"{self.text}: expected one value; a list has brackets, as in [1, 2]")
        return set_key(values, self.keys, self.values[0], self.text)


@dataclass(frozen=True)
class Preset:
    """The content of a file and its base, or of options alone.

    A run's value of a key comes from the last of these that has it: `fixed`, `overrides`, axes other than
    `AXES`, `changes`.
    """

    axes: Axes
    fixed: Mapping[str, GivenValue] = field(default_factory=dict)
    """Keys that all runs share; default: none."""
    overrides: tuple[Override, ...] = ()
    changes: tuple[Change, ...] = ()
    excluded: tuple[Choice, ...] = ()
    """Combinations of axis values that are no runs; default: none."""
    filter: Choice = field(default_factory=dict)
    """Values of axes that the file's own `filter` selects; default: all."""
    searched: frozenset[str] = frozenset()
    """Settings of the algorithm to which a search will give other values; default: none."""
    name: str = ""
    """Name of its grid."""
    text: str = ""
    source: str = ""
    """Where the content comes from; `text` and `source` are as in `Grid`."""


def _find_axis(given: str, axes: Iterable[str]) -> str:
    """Find the axis among `axes` that `given` names, in the singular or the plural."""
    for axis in (given, given.removesuffix("s")):
        if axis in axes:
            return axis
    raise unknown_name_error("axis", given, axes)


def parse_axis(axis: str, given: Any, place: Place | None = None) -> tuple[GivenValue, ...]:
    """Parse the values of an axis: one, a list, a range of seeds, or the algorithms of the arena.

    Args:
        axis: the axis.
        given: the value or list as it stands in a file or option.
        place: its line, for error messages; default None: not from a file.

    Raises:
        ConfigError: for an empty list, a malformed range, or an algorithm without its name.
    """
    values_of_axis: list[GivenValue] = []
    for index, value in enumerate(given if isinstance(given, list) else [given]):
        where = place.locate_part(index) if place and isinstance(given, list) else place
        with prefix_errors(where):
            if axis == SPLIT and isinstance(value, Mapping):
                # Settings without a kind are those of the default kind.
                value = {"kind": DEFAULTS[SPLIT], **value}
            # Values of the command line are split at commas before; a name with a comma comes from a file.
            if axis in (ALGORITHM, SPLIT) and isinstance(value, str) and "," in value:
                raise ConfigError(f"{axis} = '{value[:60]}': several are a list: [{value[:60]}]")
            values = [value]
            if axis == "seed" and isinstance(value, str):
                values = list(_parse_seeds(value))
            elif (axis, value) == ("algorithm", ARENA):
                values = list(list_arena_members())
            if axis == "algorithm" and isinstance(value, Mapping) and "name" not in value:
                raise ConfigError(explain_missing_name(value))
        values_of_axis.extend(GivenValue(value, where) for value in values)
    if not values_of_axis:
        with prefix_errors(place):
            raise ConfigError(f"{axis} = []: expected at least one")
    return tuple(values_of_axis)


def _parse_seeds(text: str) -> list[int]:
    """Parse the seeds of `0..4` (both ends included), `3` or `0,2,5`."""
    seeds: list[int] = []
    for part in text.split(","):
        # At most 18 digits: a longer number would not fit 64 bits, and Python refuses to parse thousands of
        # digits.
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:\.\.\s*(\d{1,18})\s*)?", part, re.ASCII)
        if not match:
            raise ConfigError(f"seeds = '{text[:60]}': expected 0..4 (both included), 3 or 0,2,5")
        first = int(match[1])
        last = int(match[2] or first)
        if not first <= last < first + MOST_SEEDS:
            raise ConfigError(f"seeds = '{text}': a range ascends, by less than {MOST_SEEDS}, as in 0..4")
        seeds.extend(range(first, last + 1))
    return seeds


def parse_choice(given: Mapping[Any, Any], axes: Axes, place: Place | None = None) -> Choice:
    """Parse a mapping of axis -> value or list as a choice among the labels of `axes`.

    Args:
        given: the mapping, as it stands in a file or option.
        axes: the axes of the grid.
        place: its line, for error messages; default None: not from a file.

    Raises:
        ConfigError: for an axis or a value that the grid does not have.
    """
    choice: dict[str, frozenset[str]] = {}
    for name, values in given.items():
        where = place and place.locate_part(str(name))
        with prefix_errors(where):
            axis = _find_axis(str(name), axes)
        picked = parse_axis(axis, values, where)
        has = {item.label: None for item in axes[axis]}
        names = has.keys() | {item.name for item in axes[axis]}
        for item in picked:
            if item.label not in names:
                with prefix_errors(item.place):
                    near = suggest_name(item.label, names, NAMES_IN_PAPERS if axis == "algorithm" else {})
                    raise ConfigError(
                        f"no {axis} '{item.label}' in this grid; {near}it has: {', '.join(has)}"
                    )
        choice[axis] = choice.get(axis, frozenset()) | {item.label for item in picked}
    return choice


def restrict_axes(axes: Axes, choice: Choice) -> Axes:
    """Restrict axes to the values that `choice` allows.

    Raises:
        ConfigError: if an axis has no value left.
    """
    narrowed = dict(axes)
    for axis, labels in choice.items():
        narrowed[axis] = tuple(item for item in axes[axis] if not labels.isdisjoint(item.labels))
        if not narrowed[axis]:
            left = ", ".join(item.label for item in axes[axis])
            raise ConfigError(
                f"no run is left: {axis} should be {', '.join(sorted(labels))}, but only {left} is there"
            )
    return narrowed


def read_where(text: str) -> list[Condition]:
    """Parse the conditions of a `--where`.

    Raises:
        ConfigError: the text is malformed.
    """
    try:
        return read_conditions(text)
    except ValueError as error:
        raise ConfigError(f"--where {text}: {error}") from error


def parse_filter(text: str) -> dict[str, list[str]]:
    """Parse a `--where` such as `dataset=mnist,fmnist,clients=15` as axis -> values.

    Raises:
        ConfigError: the text is malformed, or has another operator.
    """
    conditions = read_where(text)
    if others := [condition for condition in conditions if condition.operator != "="]:
        raise ConfigError(
            f"--where {text}: '{others[0].operator}' selects finished runs only: expected AXIS=VALUE"
        )
    return {condition.column: list(condition.values) for condition in conditions}


def add_values(axes: Axes, text: str) -> Axes:
    """Add to the axes the values of `algorithms+=a,b` or `seeds+=5..9`.

    Raises:
        ConfigError: for an unknown axis, or a value that the axis already has.
    """
    name, plus, values = text.partition("+=")
    if not (name.strip() and plus and values.strip()):
        raise ConfigError("expected AXIS+=VALUES, as in algorithms+=sattler,briggs or seeds+=5..9")
    axis = _find_axis(name.strip(), axes)
    given: Any = [part.strip() for part in values.split(",")]
    if axis == "seed":
        given = values
    elif axis == "clients":
        given = [int(part) if part.isdecimal() else part for part in given]
    elif axis not in AXES:
        given = parse_value(f"[{values}]", f"'{values}'")
    added = parse_axis(axis, given)
    has = {item.label for item in axes[axis]}
    for item in added:
        if item.label in has:
            raise ConfigError(f"the grid already has {axis} {item.label}; leave it out")
        has.add(item.label)
    return {**axes, axis: (*axes[axis], *added)}
