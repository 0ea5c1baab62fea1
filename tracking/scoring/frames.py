"""Results as a pandas frame, for notebooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(results: Sequence[Any], *, by_round: bool = False) -> "DataFrame":
    """Return a frame with a row for each result and the last value of each score; as `Study.to_pandas`."""
    from pandas import DataFrame, concat

    if not by_round:
        return DataFrame([_identity(result.run) | _last(result) for result in results])
    parts = [
        DataFrame({**_identity(result.run), "round": result.round_R, **result.curves}) for result in results
    ]
    return concat(parts, ignore_index=True) if parts else DataFrame()


def _identity(run: Any) -> dict[str, Any]:
    names = ("run_id", "name", "dataset", "split", "clients", "algorithm", "seed")
    return {name: getattr(run, name) for name in names} | dict(run.axes)


def _last(result: Any) -> dict[str, Any]:
    found = result.clustering
    return {
        "rounds": len(result.round_R),
        "clustering_round": np.nan if found.clustering_round is None else found.clustering_round,
        "last_change_round": np.nan if found.last_change_round is None else found.last_change_round,
        "exactly_right": found.exactly_right,
        **{name: result.last(name) for name in result.curves},
    }
