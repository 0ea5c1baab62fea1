"""The tables of docs/arena.md, from the runs of `arena-digits`, finished or not.

python -m benchmarks.arena --storage runs

Only federations (a scenario and a seed) count in which every algorithm has finished.
"""

import argparse
from collections.abc import Iterable

import numpy as np
import pandas as pd

from fedgrid.grids.results.study import load
from fedgrid.tracking.scoring.cost import Target, Terms, costs

FEDERATION = ["overlap", "balance", "seed"]
WITH_GROUPS = ("nonoverlapping", "overlapping", "rotated")
"""Kinds of scenario whose groups are there to be found."""


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--grid", default="arena-digits")
    parser.add_argument("--storage", default="runs")
    parser.add_argument("--target", default="personalised_accuracy=95%")
    given = parser.parse_args()
    study, target = load(given.grid, given.storage), Target.parse(given.target)
    runs = study.to_pandas()
    spent = {
        each.run.run_id: cost.bytes / 1e6
        for algorithm, found in costs(study, Terms(target)).items()
        for each, cost in zip(study.where(algorithm=algorithm).finished, found, strict=True)
    }
    runs["megabytes"] = [spent[each.run.run_id] for each in study.finished]
    runs["reference"] = runs["algorithm"].isin(study.references)
    complete = runs.groupby(FEDERATION)["algorithm"].transform("nunique") == len(study.algorithms)
    runs = runs[complete]
    print(f"{len(runs.groupby(FEDERATION))} federations, {len(runs)} runs; target {given.target}\n")
    print_table(overall(runs), "algorithm")
    scenarios = runs["overlap"] + " " + runs["balance"].where(runs["balance"] != "balanced", "")
    by_scenario = runs.pivot_table("personalised_accuracy", "algorithm", scenarios, sort=False)
    print_table(by_scenario.loc[runs["algorithm"].unique()].map("{:.3f}".format), "personalised accuracy")


def overall(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row an algorithm: what it finds, and what that is worth."""
    competitors = runs[~runs["reference"]].copy()
    accuracies = competitors.groupby(FEDERATION)["personalised_accuracy"]
    competitors["rank"] = accuracies.rank(ascending=False)
    ranks = competitors.groupby("algorithm")["rank"].mean()
    rows = {}
    for name, part in runs.groupby("algorithm", sort=False):
        grouped = part[part["overlap"].isin(WITH_GROUPS)]
        alike = part[part["overlap"] == "iid"]
        rows[name] = {
            "exactly right": f"{grouped['exactly_right'].sum()}/{len(grouped)}",
            "ARI": f"{grouped['ari'].mean():.2f}",
            "in round": median(grouped["clustering_round"]),
            "IID cut up": f"{(alike['clusters'] > 1).sum()}/{len(alike)}",
            "pers. acc.": f"{part['personalised_accuracy'].mean():.3f}",
            "mean rank": f"{ranks[name]:.1f}" if name in ranks else "–",
            "gen. acc.": text(part["generalised_accuracy"].mean()),
            "MB to target": median(part["megabytes"].fillna(np.inf)),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def text(value: float) -> str:
    """Return three digits; a dash if nothing is known, as of an algorithm without a model for all classes."""
    return "–" if pd.isna(value) else f"{value:.3f}"


def median(values: Iterable[float]) -> str:
    """Return the median of what is known, `never` if it is infinite."""
    known = [value for value in values if not pd.isna(value)]
    if not known:
        return "–"
    middle = float(np.median(known))
    return f"{middle:.3g}" if np.isfinite(middle) else "never"


def print_table(frame: pd.DataFrame, corner: str) -> None:
    """Print a frame of texts in Markdown."""
    for row in ((corner, *frame.columns), ["---"] * (len(frame.columns) + 1), *frame.itertuples()):
        print(f"| {' | '.join(str(cell).strip() for cell in row)} |")
    print()


if __name__ == "__main__":
    main()
