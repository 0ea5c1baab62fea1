"""The numbers that the papers published, or that follow from the archived results of their authors.

OCFL: Zuziak et al. 2025, arXiv:2509.01587. `clustering.csv` has Tables 1 and 2 with the digits of the
archive: recomputed in the conventions of its notebooks, rounded to five digits, then to four. The paper shows
two. `personalisation.csv` has means over the eight scenarios of a data set, computed from the archive (three
digits) in the published conventions. PBA, which is not in the papers, is the mean recall over the client's
own classes.

FLIS: Morafah et al. 2022. `flis.csv` has Tables 1 and 2 in percent as printed, algorithms by their names
here; the row of FLIS-HC at 30 % is missing, because the text at hand has lost it. `flis_cost.csv` has Table
3: rounds at 20 % label skew, and megabits per client at 30 %, as many as the text at hand has.

Prigent: Prigent et al. 2024. `prigent.csv` has Tables III, IV and V as printed, of the federated and the
central (public) training of the encoder; empty: the target was not reached. `prigent_flips.csv` has the ARI
by flip probability of the release's notebook, where the numbers are typed in; they are not those of Figure
4's text. `prigent_attack.csv` has Table II, the error of reconstructed class means.

`explanations.csv` has the scores of explanations of the OCFL authors' runs, ten digits of `INDE_avg.csv` in
their archive; on the images of others, 42 of 140 are missing there.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
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
"""Scenarios per data set: four splits, each with 15 and with 30 clients."""

Scenario: TypeAlias = study.Scenario


@cache
def clustering() -> Mapping[tuple[Scenario, str], PublishedClustering]:
    """Return (scenario, algorithm) -> its cells of Tables 1 and 2."""
    return {
        (
            (row["dataset"], int(row["clients"]), f"{row['overlap']}-{row['balance']}"),
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


@dataclass(frozen=True)
class Printed:
    """A mean and its deviation, in percent."""

    text: str
    """As printed: `77.3`."""
    mean: float
    deviation: str
    """As printed, empty if there is none."""


@cache
def flis() -> Mapping[tuple[str, str, str], Printed]:
    """Return (`label-skew 0.2`, data set, algorithm) -> its cell of Tables 1 and 2 of FLIS."""
    return {
        (row["scenario"], row["dataset"], row["algorithm"]): Printed(
            row["mean"], float(row["mean"]), row["deviation"]
        )
        for row in _rows("flis.csv")
    }


@cache
def flis_cost() -> Mapping[tuple[str, str], tuple[str, str]]:
    """Return (data set, algorithm) -> rounds and megabits of FLIS's Table 3; empty: not reached."""
    return {
        (row["dataset"], row["algorithm"]): (row["rounds"], row["mbit"]) for row in _rows("flis_cost.csv")
    }


@cache
def prigent() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Return (data set, algorithm) -> `rounds`, `accuracy`, `gb` ... of Tables III to V of Prigent et al."""
    return {(row["dataset"], row["algorithm"]): row for row in _rows("prigent.csv")}


@cache
def prigent_flips() -> Mapping[tuple[str, str, float], float]:
    """Return (data set, `federated` or `central`, flip probability) -> ARI."""
    return {
        (row["dataset"], row["encoder"], float(row["flip"])): float(row["ari"])
        for row in _rows("prigent_flips.csv")
    }


@cache
def prigent_attack() -> Mapping[str, float]:
    """Return the error of reconstructions by level: `none` without bits, else the flip probability."""
    return {row["level"]: float(row["mse"]) for row in _rows("prigent_attack.csv")}


@cache
def explanations() -> Mapping[tuple[Scenario, str, str], tuple[float, float]]:
    """Return (scenario, algorithm, distribution) -> insertion and deletion of its run."""
    return {
        (
            (row["dataset"], int(row["clients"]), f"{row['overlap']}-{row['balance']}"),
            row["algorithm"],
            row["on"],
        ): (float(row["insertion"]), float(row["deletion"]))
        for row in _rows("explanations.csv")
    }


def digits_of(value: float) -> float:
    """Return a clustering score rounded like the published ones."""
    for digits in DIGITS:
        # numpy rounds halves to even, as was done for the published numbers.
        value = float(np.round(value, digits))
    return value


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))
