"""The numbers of the OCFL papers, as printed or as computed from their authors' archived results.

`clustering.csv` has Tables 1 and 2 with the digits of the archive: recomputed in the conventions of its
notebooks, rounded to five digits, then to four. The paper shows two. `personalisation.csv` has means over the
eight scenarios of a data set, computed from the archive (three digits) in the published conventions. PBA,
which is not in the papers, is the mean recall over the client's own classes.

`explanations.csv` has the scores of explanations of the authors' runs, ten digits of `INDE_avg.csv` in their
archive; on the images of others, 42 of 140 are missing there.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from fedgrid.tracking.papers.shared.paper import read_csv_rows
from fedgrid.tracking.scoring.partitions import PublishedClustering
from fedgrid.tracking.scoring.run import Scenario

FOLDER = Path(__file__).parent
SCENARIOS = 8
"""Scenarios per data set: four splits, each with 15 and with 30 clients."""


@cache
def read_clustering() -> Mapping[tuple[Scenario, str], PublishedClustering]:
    """Read the cells of Tables 1 and 2, by scenario and algorithm."""
    return {
        (
            (row["dataset"], int(row["clients"]), f"{row['overlap']}-{row['balance']}"),
            row["algorithm"],
        ): PublishedClustering(float(row["rand"]), float(row["ami"]), float(row["com"]), int(row["round"]))
        for row in read_csv_rows(FOLDER / "clustering.csv")
    }


@cache
def read_personalisation() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Read `pf1_mean`, `pf1_last` and so on, means over eight scenarios, by data set and algorithm."""
    return {
        (row["dataset"], row["algorithm"]): {
            name: float(value) for name, value in row.items() if name not in ("dataset", "algorithm")
        }
        for row in read_csv_rows(FOLDER / "personalisation.csv")
    }


@cache
def read_explanations() -> Mapping[tuple[Scenario, str, str], tuple[float, float]]:
    """Read insertion and deletion of a run, by scenario, algorithm and distribution."""
    return {
        (
            (row["dataset"], int(row["clients"]), f"{row['overlap']}-{row['balance']}"),
            row["algorithm"],
            row["on"],
        ): (float(row["insertion"]), float(row["deletion"]))
        for row in read_csv_rows(FOLDER / "explanations.csv")
    }


def round_as_published(value: float) -> float:
    """Round a clustering score like the published ones: 0.509855 to 0.50985, then to 0.5098."""
    for digits in (5, 4):
        # numpy rounds halves to even, as was done for the published numbers.
        value = float(np.round(value, digits))
    return value
