"""A study in a notebook: as a pandas frame, and as the HTML that a cell shows."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN = ("clusters", "ari", "personalised_accuracy", "generalised_accuracy")
"""Scores that a cell of a notebook shows of each run."""
ROWS = 40
"""Runs that it shows."""


class Frames:
    """What `Study` has for notebooks; `name`, `runs` and `finished` are its own."""

    name: str
    runs: tuple[Any, ...]

    @property
    def finished(self) -> tuple[Any, ...]:
        """The results of the finished runs."""
        raise NotImplementedError

    def to_pandas(self, *, by_round: bool = False) -> "DataFrame":
        """Return a frame with a row for each finished run and the last value of each score.

        With `by_round` it has a row for each round, and the scores of that round, NaN where there is none.
        The columns are what identifies the run, the grid's further axes, then the scores as in
        `Result.curves`. A run's row also has `clustering_round`, `last_change_round` and `exactly_right`.
        """
        from pandas import DataFrame, concat

        if by_round:
            parts = [
                DataFrame({**_identity(result.run), "round": result.round_R, **result.curves})
                for result in self.finished
            ]
            return concat(parts, ignore_index=True) if parts else DataFrame()
        return DataFrame([_row(result) for result in self.finished])

    def _repr_html_(self) -> str:
        """Return a table of the runs, for a notebook."""
        head = f"<b>{escape(self.name)}</b>: {len(self.finished)} of {len(self.runs)} runs finished"
        if not self.finished:
            return head
        frame = self.to_pandas()
        varied = [name for name in _identity(self.finished[0].run) if frame[name].nunique() > 1]
        columns = dict.fromkeys(["algorithm", *varied, *SHOWN])
        shown = frame[[name for name in columns if name in frame and name not in ("run_id", "name")]]
        html = shown.to_html(index=False, max_rows=ROWS, float_format=lambda value: f"{value:.3g}", border=0)
        return f"{head}{html}"


def _identity(run: Any) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "name": run.name,
        "dataset": run.dataset,
        "split": run.split,
        "clients": run.clients,
        "algorithm": run.algorithm,
        "seed": run.seed,
        **dict(run.axes),
    }


def _row(result: Any) -> dict[str, Any]:
    found = result.clustering
    return {
        **_identity(result.run),
        "rounds": len(result.round_R),
        "clustering_round": np.nan if found.clustering_round is None else found.clustering_round,
        "last_change_round": np.nan if found.last_change_round is None else found.last_change_round,
        "exactly_right": found.exactly_right,
        **{name: result.last(name) for name in result.curves},
    }
