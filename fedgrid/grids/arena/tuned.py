"""The settings that tuning has found, and their csv file: one line a method."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedgrid.redaction import in_csv

if TYPE_CHECKING:
    from fedgrid.grids.search.space import Params

__all__ = ["Params", "Tuned", "from_csv", "to_csv"]


HEADINGS = ("dataset", "method", "trials", "trial", "validation", "settings", "search")


@dataclass(frozen=True)
class Tuned:
    """The settings that a search has found for a method; those of a method without a space are empty."""

    dataset: str
    method: str
    trials: int
    """How many were asked for."""
    trial: int
    """Which was the best; 0 if there was nothing to tune, or no trial has a score."""
    validation: float
    """Its score: mean personalised accuracy on validation images."""
    params: Params
    search: str
    """Digest of everything that the search depends on but the number of trials."""


def to_csv(tuned: Iterable[Tuned]) -> str:
    """Return the file: a line a method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADINGS)
    for one in sorted(tuned, key=lambda each: (each.dataset, each.method)):
        settings = json.dumps(dict(one.params), sort_keys=True)
        line = (one.dataset, one.method, one.trials, one.trial, f"{one.validation:.6g}", settings, one.search)
        writer.writerow(map(in_csv, line))
    return text.getvalue()


def from_csv(text: str) -> tuple[Tuned, ...]:
    """Return what a file's text says.

    Raises:
        ValueError: it is no such file.
    """
    lines = csv.DictReader(io.StringIO(text))
    if tuple(lines.fieldnames or ()) != HEADINGS:
        raise ValueError(f"columns {lines.fieldnames}: expected {', '.join(HEADINGS)}")
    return tuple(
        Tuned(
            line["dataset"],
            line["method"],
            int(line["trials"]),
            int(line["trial"]),
            float(line["validation"]),
            json.loads(line["settings"]),
            line["search"],
        )
        for line in lines
    )
