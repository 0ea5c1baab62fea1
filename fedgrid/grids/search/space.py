"""The space of a search: settings of an algorithm, and keys of `training` (`training.learning_rate`).

Each has a range of numbers, or a list of choices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, isfinite, log
from pathlib import Path
from typing import Any, TypeAlias, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm, drop_derived_defaults
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, unknown_key_error
from fedgrid.engine.federation.training.settings import Training
from fedgrid.engine.runtime.configuration.complete import TRAINING_KEYS, complete_settings
from fedgrid.engine.runtime.configuration.conditions import check_algorithm
from fedgrid.engine.runtime.configuration.sections import NOTHING, find_section, list_fields
from fedgrid.engine.runtime.configuration.validation import explain_error
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.grids.presets.axis_keys import ALGORITHM, SETTING_PREFIX
from fedgrid.grids.presets.nested_values import merge_mappings, nest_keys
from fedgrid.grids.presets.preset_files import SEARCH_KEY
from fedgrid.grids.presets.yaml_file import Place, prefix_errors

RANGE_KEYS = ("low", "high", "log", "step")
TRAINING = "training."
"""Prefix of keys that are no settings of the algorithm."""
DIGITS = 4
"""Significant digits of a number from a range: enough for a preset."""

Value: TypeAlias = bool | int | float | str | None
Params: TypeAlias = Mapping[str, Value]
"""Setting -> value; nested settings have a dot, as in clusterer.min_cluster_share and training.momentum."""


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    """Whether numbers are spaced by ratio instead of by difference."""
    step: float | None = None
    is_integer: bool = False
    """Whether the setting takes whole numbers only."""

    def to_plain(self) -> dict[str, Any]:
        """Convert it to the value of a file."""
        ends = {"low": self.low, "high": self.high}
        return ends | ({"log": True} if self.log else {}) | ({"step": self.step} if self.step else {})

    def list_steps(self) -> list[Value] | None:
        """List all values of a range with a step, None without one."""
        if self.step is None:
            return None
        # The tolerance keeps the last value: (0.3 - 0.1) / 0.1 is just below 2 in floating point.
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return [self.round_value(self.low + self.step * index) for index in range(count)]

    def space_evenly(self, count: int) -> list[Value]:
        """List `count` evenly spaced values from end to end; fewer if there are fewer whole numbers."""
        shares = [index / max(1, count - 1) for index in range(count)]
        if self.log:
            first, last = log(self.low), log(self.high)
            values = [exp(first + (last - first) * share) for share in shares]
        else:
            values = [self.low + (self.high - self.low) * share for share in shares]
        return list(dict.fromkeys(self.round_value(value) for value in values))

    def round_value(self, value: float) -> Value:
        """Round a number to `DIGITS`, or to a whole number, within the range."""
        if self.is_integer:
            return round(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


@dataclass(frozen=True)
class Choices:
    """Values without an order."""

    values: tuple[Value, ...]

    def to_plain(self) -> list[Value]:
        """Convert them to the value of a file."""
        return list(self.values)


Dimension: TypeAlias = Range | Choices
Space: TypeAlias = Mapping[str, Dimension]


def find_built_in_space(algorithm: str, rounds: int) -> dict[str, Any]:
    """Find the space of an algorithm's entry, as it would stand in a file.

    Args:
        algorithm: The algorithm.
        rounds: Number of rounds of the shortest run, on which a space may depend.

    Raises:
        ConfigError: It has none.
    """
    if algorithm in ALGORITHMS and (space := ALGORITHMS[algorithm].build_space(rounds)):
        return space
    having = ", ".join(entry.name for entry in ALGORITHMS.values() if entry.build_space(rounds))
    raise ConfigError(
        f"{algorithm} has no built-in search space ({having} have one); write a file with search: and its "
        "settings, or give a plugin's AlgorithmEntry a space of its own: search={...}"
    )


def read_space(
    given: Any, algorithm: str, place: Place | None = None, settings: Mapping[str, Any] = NOTHING
) -> dict[str, Dimension]:
    """Parse a space, and check it against the settings of an algorithm.

    Args:
        given: Setting -> list of values, or a dict with `low` and `high`.
        algorithm: The algorithm.
        place: Where a file has the space, for errors; None, the default, without a file.
        settings: The algorithm's settings in the runs, which say what its choices are; by default those of
            its entry.

    Raises:
        ConfigError: A setting does not exist or does not allow a value; the message names the place.
    """
    if not isinstance(given, Mapping) or not given:
        with prefix_errors(place):
            raise ConfigError(
                f"{SEARCH_KEY} = {given!r}: expected settings of {algorithm}, or {TRAINING}learning_rate, "
                "each "
                "with a list of values or {low: ..., high: ...}"
            )
    space: dict[str, Dimension] = {}
    for key, values in given.items():
        with prefix_errors(place and place.locate_part(str(key))):
            kinds = _find_types(str(key), algorithm, settings)
            dimension = space[str(key)] = _parse_dimension(f"{SEARCH_KEY}.{key}", values, kinds)
            ends = dimension.values if isinstance(dimension, Choices) else (dimension.low, dimension.high)
            # The ends are enough: what a setting allows is an interval.
            for value in ends:
                _check_value(algorithm, str(key), value, settings)
    return space


def _parse_dimension(key: str, given: Any, kinds: set[Any]) -> Dimension:
    """Parse a list of values or a range."""
    if isinstance(given, list):
        if not given or not all(
            value is None or isinstance(value, bool | int | float | str) for value in given
        ):
            raise ConfigError(f"{key} = {given!r}: expected a list of plain values")
        # By `repr`, as 1, 1.0 and True are equal and yet different choices.
        if len({repr(value) for value in given}) < len(given):
            raise ConfigError(f"{key} = {given!r}: a value is listed twice")
        return Choices(tuple(given))
    if not isinstance(given, Mapping):
        raise ConfigError(f"{key} = {given!r}: expected a list of values, or {{low: ..., high: ...}}")
    for name in given:
        if name not in RANGE_KEYS:
            raise unknown_key_error(str(name), key, RANGE_KEYS)
    if not kinds & {int, float}:
        raise ConfigError(f"{key} is not a number: give it a list of values")
    return _parse_range(key, given, is_integer=float not in kinds)


def _parse_range(key: str, given: Mapping[str, Any], *, is_integer: bool) -> Range:
    """Parse a range, and check its ends and step."""
    for name in ("low", "high"):
        if name not in given:
            raise ConfigError(f"{key}: {name} is missing")
    numbers = {name: given[name] for name in ("low", "high", "step") if given.get(name) is not None}
    for name, value in numbers.items():
        kind = int if is_integer else int | float
        if isinstance(value, bool) or not isinstance(value, kind) or not isfinite(value):
            expected = "a whole number" if is_integer else "a number"
            raise ConfigError(f"{key}.{name} = {value!r}: expected {expected}")
    by_ratio = given.get("log", False)
    if not isinstance(by_ratio, bool):
        raise ConfigError(f"{key}.log = {by_ratio!r}: expected true or false")
    low, high, step = numbers["low"], numbers["high"], numbers.get("step")
    if low >= high:
        raise ConfigError(f"{key}: low = {low} should be below high = {high}")
    if by_ratio and (low <= 0 or step is not None):
        raise ConfigError(f"{key}: log needs low above 0, and no step")
    if step is not None and not 0 < step <= high - low:
        raise ConfigError(f"{key}.step = {step}: expected more than 0, at most {high - low:g}")
    return Range(low, high, by_ratio, step, is_integer)


def _find_types(key: str, algorithm: str, settings: Mapping[str, Any]) -> set[Any]:
    """Find the types that a setting allows."""
    if key in TRAINING_KEYS.values():
        return _plain_types(Training.model_fields[key.removeprefix(TRAINING)].annotation)
    if key.startswith(TRAINING):
        raise unknown_key_error(key.removeprefix(TRAINING), f"{SEARCH_KEY}.training", TRAINING_KEYS)
    if key.startswith(SETTING_PREFIX):
        raise ConfigError(
            f"{SEARCH_KEY}.{key}: settings of the algorithm stand here without '{SETTING_PREFIX}'; "
            f"write {key.removeprefix(SETTING_PREFIX)}"
        )
    path = key.split(".")
    fields: Mapping[str, FieldInfo] = {}
    for depth, name in enumerate(path):
        section = find_section(ALGORITHMS[algorithm].settings, tuple(path[:depth]), settings)
        if section is None:
            raise ConfigError(f"{SEARCH_KEY}.{key}: {path[depth - 1]} has no settings")
        fields = list_fields(section)
        if name not in fields:
            allowed = [*fields, f"{TRAINING}KEY"]
            raise unknown_key_error(
                name, ".".join([SEARCH_KEY, *path[:depth]]), allowed, nested_keys=TRAINING_KEYS
            )
    return _plain_types(fields[path[-1]].annotation)


def _plain_types(annotation: Any) -> set[Any]:
    """Collect the types within an annotation, of a Literal its values.

    `Annotated[int, ...] | None` gives {int, NoneType}.
    """
    inner = get_args(annotation)
    return set().union(*(_plain_types(part) for part in inner)) if inner else {annotation}


ANY_TRAINING = {"rounds": 1, "batch_size": 1, "optimizer": "sgd", "learning_rate": 1.0}
"""The least keys of a valid `training`, to check one more key with."""


def _check_value(algorithm: str, key: str, value: Value, settings: Mapping[str, Any]) -> None:
    """Refuse a value that a setting does not allow; combinations of values are not checked."""
    name = key.partition(".")[0]
    # A setting of a choice is one of what the runs choose.
    chosen = {name: settings[name]} if isinstance(settings.get(name), Mapping) else {}
    is_training = key.startswith(TRAINING)
    try:
        if is_training:
            Training.model_validate({**ANY_TRAINING, key.removeprefix(TRAINING): value})
        else:
            create_algorithm(algorithm, merge_mappings(chosen, nest_keys({key: value})))
    except ValidationError as error:
        # An error without a place is of several settings together; the others have other values in a trial.
        if error.errors()[0]["loc"]:
            model: Any = Training if is_training else ALGORITHMS[algorithm].settings
            message = f"{TRAINING if is_training else f'{algorithm}: '}{explain_error(error, model)}"
            raise ConfigError(f"{SEARCH_KEY}: {message}") from error
    except ValueError as error:
        raise ConfigError(f"{SEARCH_KEY}.{key}: {error}") from error


def apply_settings(run: RunConfig, params: Params) -> RunConfig:
    """Build a run with other settings of its algorithm and training.

    Raises:
        ConfigError: The settings exclude one another.
    """
    name, other = run.algorithm.name, build_sections(params)
    settings = merge_mappings(drop_derived_defaults(build_algorithm(run).settings), other[ALGORITHM])
    changed = run.with_values(
        algorithm={"name": name, **complete_settings(name, settings)},
        training={**run.training.model_dump(), **other["training"]},
    )
    # The kind of input follows from the data set's name, so that any data folder will do.
    check_algorithm(changed, find_dataset(changed.dataset, Path()))
    return changed


def build_axis_key(key: str) -> str:
    """Build the key of a grid's axis for a setting."""
    return key if key.startswith(TRAINING) else f"{SETTING_PREFIX}{key}"


def build_sections(params: Params) -> dict[str, Any]:
    """Convert settings to sections of a run: `algorithm` and `training`, either may be empty."""
    return {
        ALGORITHM: {},
        "training": {},
        **nest_keys({build_axis_key(key): value for key, value in params.items()}),
    }
