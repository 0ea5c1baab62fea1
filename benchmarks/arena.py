"""The section of docs/arena.md with what came out, from the runs of `arena-digits`, finished or not.

    python -m benchmarks.arena --storage runs                        # prints it
    python -m benchmarks.arena --storage runs --into docs/arena.md   # writes it to the end of that page

Only federations (a scenario and a seed) count in which every algorithm has finished. All numbers and names of
the section come from the runs.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from fedgrid.grids.results.study import load
from fedgrid.tracking.scoring.cost import Target, Terms, costs
from fedgrid.tracking.scoring.study import Study

FEDERATION = ["split", "seed"]
WITH_GROUPS = (
    "nonoverlapping-balanced",
    "nonoverlapping-imbalanced",
    "overlapping-balanced",
    "overlapping-imbalanced",
    "rotated",
)
"""Kinds of scenario whose groups are there to be found."""


HEADING = "## What came out"
DIFFERING = ("label-skew", "dirichlet")
"""Kinds of scenario whose clients differ, but not by groups."""


def main() -> None:
    """Print the section, or write it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--grid", default="arena-digits")
    parser.add_argument("--storage", default="runs")
    parser.add_argument("--target", default="personalised_accuracy=95%")
    parser.add_argument("--into", type=Path, help="A page with the section at its end.")
    given = parser.parse_args()
    runs = complete_runs(load(given.grid, given.storage), Target.parse(given.target))
    if runs.empty:
        parser.error(f"no federation of {given.grid} in {given.storage} has runs of every algorithm yet")
    written = section(runs, given.target)
    if given.into is None:
        print(written, end="")
        return
    before, heading, _ = given.into.read_text().partition(HEADING)
    if not heading:
        parser.error(f"{given.into} has no heading {HEADING!r}; add it at its end")
    given.into.write_text(before + written)


def complete_runs(study: Study, target: Target) -> pd.DataFrame:
    """Return a row a run, of the federations in which every algorithm has finished."""
    runs = study.to_pandas()
    spent = {
        each.run.run_id: cost.bytes / 1e6
        for algorithm, found in costs(study, Terms(target)).items()
        for each, cost in zip(study.where(algorithm=algorithm).finished, found, strict=True)
    }
    runs["megabytes"] = [spent[each.run.run_id] for each in study.finished]
    runs["reference"] = runs["algorithm"].isin(study.references)
    complete = runs.groupby(FEDERATION)["algorithm"].transform("nunique") == len(study.algorithms)
    return runs[complete]


def section(runs: pd.DataFrame, target: str) -> str:
    """Return the section in Markdown."""
    seeds = ", ".join(map(str, sorted(runs["seed"].unique())))
    federations = len(runs.groupby(FEDERATION))
    scenarios = runs["split"].str.removesuffix("-balanced").str.replace("-imbalanced", " imbalanced")
    by_scenario = runs.pivot_table("personalised_accuracy", "algorithm", scenarios, sort=False)
    by_scenario = by_scenario.loc[runs["algorithm"].unique()]
    competing = runs.loc[~runs["reference"], "algorithm"].unique()
    best = by_scenario.loc[competing].round(3).max()
    shown = by_scenario.apply(
        lambda column: [
            bold(value, name in competing and round(value, 3) == best[column.name])
            for name, value in column.items()
        ]
    )
    parts = (
        f"{HEADING}\n\n{federations} federations (seeds {seeds}), {len(runs)} runs; target {target}.",
        table(overall(runs), "algorithm"),
        table(shown, "personalised accuracy"),
        "\n".join(f"- {line}" for line in findings(runs)),
    )
    return "\n\n".join(parts) + "\n"


def findings(runs: pd.DataFrame) -> list[str]:
    """Return in words who is right, who leaves equal clients together, and who serves clients best."""
    runs = runs[~runs["reference"]]
    grouped = runs[runs["split"].isin(WITH_GROUPS)].groupby("algorithm", sort=False)["exactly_right"]
    right = [name for name, found in grouped if found.all()]
    clusters = runs[runs["split"] == "iid"].groupby("algorithm", sort=False)["clusters"].max()
    together = [name for name in right if clusters[name] == 1]
    most = grouped.mean().sort_values(ascending=False, kind="stable").head(3)
    ranks = runs.groupby(FEDERATION)["personalised_accuracy"].rank(ascending=False)
    ranked = ranks.groupby(runs["algorithm"], sort=False).mean().sort_values(kind="stable").head(4)
    differing = runs[runs["split"].isin(DIFFERING)].groupby("algorithm", sort=False)
    served = differing["personalised_accuracy"].mean().sort_values(ascending=False, kind="stable").head(4)
    always, spared = (", ".join(names) or "none" for names in (right, together))
    return [
        f"Exactly right wherever there are groups: {always}. Most often right: {named(most)}.",
        f"Of those always right, clients without groups are left together by: {spared}.",
        f"Best mean ranks: {named(ranked, '.1f')}.",
        f"Best where clients differ but not by groups, by mean accuracy: {named(served)}.",
    ]


def named(values: "pd.Series[float]", digits: str = ".2f") -> str:
    """Return the names of a series, each with its value."""
    return ", ".join(f"{name} ({value:{digits}})" for name, value in values.items())


def bold(value: float, is_best: bool) -> str:
    """Return three digits, bold for the best."""
    return f"**{value:.3f}**" if is_best else f"{value:.3f}"


def overall(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row an algorithm: what it finds, and what that is worth."""
    competitors = runs[~runs["reference"]].copy()
    accuracies = competitors.groupby(FEDERATION)["personalised_accuracy"]
    competitors["rank"] = accuracies.rank(ascending=False)
    ranks = competitors.groupby("algorithm")["rank"].mean()
    rows = {}
    for name, part in runs.groupby("algorithm", sort=False):
        grouped = part[part["split"].isin(WITH_GROUPS)]
        alike = part[part["split"] == "iid"]
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


def table(frame: pd.DataFrame, corner: str) -> str:
    """Return a frame of texts in Markdown."""
    rows = ((corner, *frame.columns), ["---"] * (len(frame.columns) + 1), *frame.itertuples())
    return "\n".join(f"| {' | '.join(str(cell).strip() for cell in row)} |" for row in rows)


if __name__ == "__main__":
    main()
