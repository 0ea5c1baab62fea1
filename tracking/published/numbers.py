"""The numbers that the OCFL papers published, or that follow from their authors' archived results.

Source: Zuziak et al. 2025, arXiv:2509.01587. `clustering.csv` has Tables 1 and 2 with the digits of
the archive, recomputed in the conventions of its notebooks and rounded to five digits, then to four; a cell
of the paper is its rounding to two. `personalisation.csv` has means over the eight scenarios of a
data set, computed from the archive (three digits), in the published conventions; PBA, which the papers do
not have, is the mean recall over the client's own classes.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedgrid.tracking.scoring import study
from fedgrid.tracking.scoring.partitions import PublishedClustering

FOLDER = Path(__file__).parent
DIGITS = (5, 4)
"""The clustering scores were rounded to five digits, then to four: 0.509855, 0.50985, 0.5098."""
SCENARIOS = 8
"""Of a data set: four splits, 15 and 30 clients."""

Scenario: TypeAlias = study.Scenario


@cache
def clustering() -> Mapping[tuple[Scenario, str], PublishedClustering]:
    """Return (scenario, algorithm) -> its cells of Tables 1 and 2."""
    return {
        (
            (row["dataset"], int(row["clients"]), row["overlap"], row["balance"]),
            row["algorithm"],
        ): PublishedClustering(float(row["rand"]), float(row["ami"]), float(row["com"]), int(row["round"]))
        for row in _rows("clustering.csv")
    }


@cache
def personalisation() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return (data set, algorithm) -> `pf1_mean`, `pf1_last` and so on, means over eight scenarios."""
    return {
        (row["dataset"], row["algorithm"]): {
            name: float(value) for name, value in row.items() if name not in ("dataset", "algorithm")
        }
        for row in _rows("personalisation.csv")
    }


def digits_of(value: float) -> float:
    """Return a clustering score with the digits that the published ones have."""
    for digits in DIGITS:
        # numpy's rounding, halves to even: it is what the published numbers went through.
        value = float(np.round(value, digits))
    return value


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))
