"""The numbers of Prigent et al.

`tables.csv` has Tables III, IV and V as printed, of the federated and the central (public) training of the
encoder; empty: the target was not reached. `flips.csv` has the ARI by flip probability of the release's
notebook, where the numbers are typed in; they are not those of Figure 4's text. `attack.csv` has Table II,
the error of reconstructed class means.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fedgrid.tracking.papers.shared.csv_rows import csv_rows

FOLDER = Path(__file__).parent


@cache
def tables() -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Return (data set, algorithm) -> `rounds`, `accuracy`, `gb` ... of Tables III to V."""
    return {(row["dataset"], row["algorithm"]): row for row in csv_rows(FOLDER / "tables.csv")}


@cache
def flips() -> Mapping[tuple[str, str, float], float]:
    """Return (data set, `federated` or `central`, flip probability) -> ARI."""
    return {
        (row["dataset"], row["encoder"], float(row["flip"])): float(row["ari"])
        for row in csv_rows(FOLDER / "flips.csv")
    }


@cache
def attack() -> Mapping[str, float]:
    """Return the error of reconstructions by level: `none` without bits, else the flip probability."""
    return {row["level"]: float(row["mse"]) for row in csv_rows(FOLDER / "attack.csv")}
