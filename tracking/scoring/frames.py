"""A study in a notebook: as a pandas frame, and as the HTML that a cell shows."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame

IDENTITY = ("run_id", "name", "dataset", "split", "clients", "algorithm", "seed")
SHOWN = ("clusters", "ari", "personalised_accuracy", "generalised_accuracy")
"""Scores that a cell of a notebook shows of each run."""
ROWS = 40
"""Runs that it shows."""


def frame(results: Sequence[Any], *, by_round: bool = False) -> "DataFrame":
    """Return a frame of results, as `Study.to_pandas`."""
    from pandas import DataFrame, concat

    if not by_round:
        return DataFrame([_identity(result.run) | _last(result) for result in results])
    parts = [
        DataFrame({**_identity(result.run), "round": result.round_R, **result.curves}) for result in results
    ]
    return concat(parts, ignore_index=True) if parts else DataFrame()


def html(name: str, num_runs: int, results: Sequence[Any]) -> str:
    """Return a table of results with what they differ in and a few scores."""
    head = f"<b>{escape(name)}</b>: {len(results)} of {num_runs} runs finished"
    if not results:
        return head
    found = frame(results)
    varied = [key for key in _identity(results[0].run) if found[key].nunique() > 1]
    columns = dict.fromkeys(["algorithm", *varied, *SHOWN])
    shown = found[[key for key in columns if key in found and key not in ("run_id", "name")]]
    table = shown.to_html(index=False, max_rows=ROWS, float_format=lambda value: f"{value:.3g}", border=0)
    return f"{head}{table}"


def _identity(run: Any) -> dict[str, Any]:
    return {name: getattr(run, name) for name in IDENTITY} | dict(run.axes)


def _last(result: Any) -> dict[str, Any]:
    found = result.clustering
    return {
        "rounds": len(result.round_R),
        "clustering_round": np.nan if found.clustering_round is None else found.clustering_round,
        "last_change_round": np.nan if found.last_change_round is None else found.last_change_round,
        "exactly_right": found.exactly_right,
        **{name: result.last(name) for name in result.curves},
    }
