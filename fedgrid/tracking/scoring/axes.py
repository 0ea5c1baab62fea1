"""The further axes of a grid, such as `split.majority`: their values, and the parts of a study by them.

`grids.results.axes` finds which keys are axes; here they are read from `Run.axes`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedgrid.tracking.scoring.run import AXES, SETTING_OF_ALGORITHM, AxisValue, Run, Scenario
from fedgrid.tracking.scoring.selection import parse_number
from fedgrid.tracking.scoring.study import Study


def read_axis_value(run: Run, axis: str) -> str | None:
    """Read a run's value of an axis as text; None if its algorithm has no such setting."""
    if axis in AXES:
        return str(getattr(run, axis))
    return dict(run.axes).get(axis, run.keys.get(axis))


def find_axes(study: Study) -> tuple[str, ...]:
    """Find the axes on which the runs of a study have two values or more."""
    keys = dict.fromkeys(key for run in study.runs for key, _ in run.axes)
    return tuple(key for key in keys if len(list_axis_values(study, key)) > 1)


def list_innermost_keys(keys: Iterable[str]) -> list[str]:
    """List the keys that contain no other one: of `algorithm.local` and `algorithm.local.mu` the second."""
    keys = list(keys)
    outer = {key[:place] for key in keys for place, letter in enumerate(key) if letter == "."}
    return [key for key in keys if key not in outer]


def list_axis_values(study: Study, axis: str) -> tuple[str, ...]:
    """List the values of an axis: numbers by size, others in the order of the study, without None."""
    in_order = {"dataset": study.datasets, "split": study.splits, "algorithm": study.algorithms}
    if axis in in_order:
        return in_order[axis]
    distinct = dict.fromkeys(read_axis_value(run, axis) for run in study.runs)
    values = [value for value in distinct if value is not None]
    # As text `10` would come before `5`, and a curve over the axis would go back and forth.
    numbers = parse_numbers(values)
    if numbers is not None:
        values.sort(key=dict(zip(values, numbers, strict=True)).__getitem__)
    return tuple(values)


def parse_numbers(values: Sequence[str]) -> list[float] | None:
    """Parse all values as numbers; None if one of them is no number."""
    numbers = [number for value in values if (number := parse_number(value)) is not None]
    return numbers if len(numbers) == len(values) else None


def select_along_axis(study: Study, axis: str) -> Study:
    """Select the runs that have an axis, with their algorithms named without it.

    Runs that differ only in a setting of their algorithm then have the same `Run.algorithm`, so that a table
    or figure has one row or line for all of its values.
    """
    runs = (run for run in study.runs if axis in dict(run.axes))
    return study.only(replace(run, algorithm=_drop_axis_from_name(run, axis)) for run in runs)


def select_axis_value(study: Study, axis: str, value: str) -> Study:
    """Select the runs that have a value of an axis."""
    return study.only(run for run in study.runs if (axis, value) in run.axes)


def select_setting(study: Study, setting: tuple[AxisValue, ...]) -> Study:
    """Select the runs of one combination of the further axes' values, as if the grid had no such axes."""
    return study.only(
        # The setting is in the section's title: repeated in each scenario it would make all names longer.
        replace(run, axes=tuple(pair for pair in run.axes if pair not in setting))
        for run in study.runs
        if run.setting == setting
    )


def format_setting(setting: Iterable[AxisValue]) -> list[str]:
    """Format axes and their values as `["split.majority 0.5", "training.local_epochs 1"]`."""
    return [f"{key} {value}" for key, value in setting]


def format_scenario(scenario: Scenario) -> str:
    """Format a scenario as `digits 15 rotated split.majority 0.5`."""
    dataset, clients, split, *setting = scenario
    return " ".join((dataset, str(clients), split, *format_setting(setting)))


def _drop_axis_from_name(run: Run, axis: str) -> str:
    """Format the name of a run's algorithm without one setting, which is an axis."""
    if not axis.startswith(SETTING_OF_ALGORITHM):
        return run.algorithm
    others = [(key, value) for key, value in run.axes if key != axis and key.startswith(SETTING_OF_ALGORITHM)]
    words = ", ".join(f"{key.removeprefix(SETTING_OF_ALGORITHM)} {value}" for key, value in others)
    return f"{run.method} ({words})" if words else run.method
