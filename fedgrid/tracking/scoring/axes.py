"""The further axes of a grid, such as `split.majority`: their values, and the parts of a study by them.

`grids.results.axes` finds which keys are axes; here they are read from `Run.axes`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedgrid.tracking.scoring.run import AXES, SETTING_OF_ALGORITHM, AxisValue, Run, Scenario
from fedgrid.tracking.scoring.selection import number_of
from fedgrid.tracking.scoring.study import Study


def value_on(run: Run, axis: str) -> str | None:
    """Read a run's value of an axis as text; None if its algorithm has no such setting."""
    if axis in AXES:
        return str(getattr(run, axis))
    return dict(run.axes).get(axis, run.keys.get(axis))


def axes_of(study: Study) -> tuple[str, ...]:
    """Find the axes on which the runs of a study have two values or more."""
    keys = dict.fromkeys(key for run in study.runs for key, _ in run.axes)
    return tuple(key for key in keys if len(values_of(study, key)) > 1)


def values_of(study: Study, axis: str) -> tuple[str, ...]:
    """List the values of an axis: numbers by size, others in the order of the study, without None."""
    in_order = {"dataset": study.datasets, "split": study.splits, "algorithm": study.algorithms}
    if axis in in_order:
        return in_order[axis]
    distinct = dict.fromkeys(value_on(run, axis) for run in study.runs)
    values = [value for value in distinct if value is not None]
    # As text `10` would come before `5`, and a curve over the axis would go back and forth.
    numbers = numbers_of(values)
    if numbers is not None:
        values.sort(key=dict(zip(values, numbers, strict=True)).__getitem__)
    return tuple(values)


def numbers_of(values: Sequence[str]) -> list[float] | None:
    """Parse all values as numbers; None if one of them is no number."""
    numbers = [number for value in values if (number := number_of(value)) is not None]
    return numbers if len(numbers) == len(values) else None


def runs_along(study: Study, axis: str) -> Study:
    """Select the runs that have an axis, with their algorithms named without it.

    Runs that differ only in a setting of their algorithm then have the same `Run.algorithm`, so that a table
    or figure has one row or line for all of its values.
    """
    runs = (run for run in study.runs if axis in dict(run.axes))
    return study.only(replace(run, algorithm=_name_without(run, axis)) for run in runs)


def runs_at(study: Study, axis: str, value: str) -> Study:
    """Select the runs that have a value of an axis."""
    return study.only(run for run in study.runs if (axis, value) in run.axes)


def runs_of_setting(study: Study, setting: tuple[AxisValue, ...]) -> Study:
    """Select the runs of one combination of the further axes' values, as if the grid had no such axes."""
    return study.only(
        # The setting is in the section's title: repeated in each scenario it would make all names longer.
        replace(run, axes=tuple(pair for pair in run.axes if pair not in setting))
        for run in study.runs
        if run.setting == setting
    )


def setting_words(setting: Iterable[AxisValue]) -> list[str]:
    """Format axes and their values as `["split.majority 0.5", "training.local_epochs 1"]`."""
    return [f"{key} {value}" for key, value in setting]


def scenario_words(scenario: Scenario) -> str:
    """Format a scenario as `digits 15 rotated split.majority 0.5`."""
    dataset, clients, split, *setting = scenario
    return " ".join((dataset, str(clients), split, *setting_words(setting)))


def _name_without(run: Run, axis: str) -> str:
    """Format the name of a run's algorithm without one setting, which is an axis."""
    if not axis.startswith(SETTING_OF_ALGORITHM):
        return run.algorithm
    others = [(key, value) for key, value in run.axes if key != axis and key.startswith(SETTING_OF_ALGORITHM)]
    words = ", ".join(f"{key.removeprefix(SETTING_OF_ALGORITHM)} {value}" for key, value in others)
    return f"{run.method} ({words})" if words else run.method
