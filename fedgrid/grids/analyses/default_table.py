"""The table of an analysis that draws none of its own: means of its metrics over seeds."""

from collections.abc import Mapping, Sequence
from math import nan

from fedgrid.tracking.scoring.axes import scenario_words
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.tables.table import Column, Row, Table, number


def table_of(name: str, results: Sequence[tuple[Run, Mapping[str, float]]]) -> Table:
    """Return a row for each algorithm of each scenario, a column for each metric."""
    columns = list(dict.fromkeys(metric for _, metrics in results for metric in metrics))
    rows: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for run, metrics in results:
        rows.setdefault((scenario_words(run.scenario), run.algorithm), []).append(metrics)
    return Table(
        f"analysis-{name}",
        name.capitalize(),
        "Means over seeds.",
        tuple(Column(metric.removeprefix(f"{name}/")) for metric in columns),
        tuple(
            Row(
                algorithm,
                tuple(
                    number([seed.get(metric, nan) for seed in seeds], expected=len(seeds), digits=3)
                    for metric in columns
                ),
                section=scenario,
            )
            for (scenario, algorithm), seeds in rows.items()
        ),
        corner="algorithm",
    )
