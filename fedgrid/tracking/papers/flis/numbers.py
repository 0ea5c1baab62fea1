"""The numbers of FLIS.

`accuracy.csv` has Tables 1 and 2 in percent as printed, algorithms by their names here; the row of FLIS-HC at
30 % is missing, because the text at hand has lost it. `cost.csv` has Table 3: rounds at 20 % label skew, and
megabits per client at 30 %, as many as the text at hand has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fedgrid.tracking.papers.shared.csv_rows import csv_rows

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Printed:
    """A mean and its deviation, in percent."""

    text: str
    """As printed: `77.3`."""
    mean: float
    deviation: str
    """As printed, empty if there is none."""


@cache
def accuracy() -> Mapping[tuple[str, str, str], Printed]:
    """Return (`label-skew 0.2`, data set, algorithm) -> its cell of Tables 1 and 2."""
    return {
        (row["scenario"], row["dataset"], row["algorithm"]): Printed(
            row["mean"], float(row["mean"]), row["deviation"]
        )
        for row in csv_rows(FOLDER / "accuracy.csv")
    }


@cache
def cost() -> Mapping[tuple[str, str], tuple[str, str]]:
    """Return (data set, algorithm) -> rounds and megabits of Table 3; empty: not reached."""
    return {
        (row["dataset"], row["algorithm"]): (row["rounds"], row["mbit"])
        for row in csv_rows(FOLDER / "cost.csv")
    }
