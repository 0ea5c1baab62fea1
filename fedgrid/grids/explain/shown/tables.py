"""The scores of one's own explanations, a row an algorithm."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fedgrid.tracking.explained.scores import (
    DISTRIBUTIONS,
    OWN_SCORES,
    UNSEEN_GAP,
    Explained,
    run_means,
)
from fedgrid.tracking.tables.cells import mean_over_scenarios
from fedgrid.tracking.tables.table import ABSENT, Cell, Column, Row, Table, bold_columns

DIGITS = 3
NO_BEST = ("p", "empty")
"""Scores of which more is neither good nor bad."""
CAPTION = (
    "Means over images (as published: over clusters), then seeds and scenarios. A high insertion is good, a "
    "low deletion. Both rise with p, the probability of the explained class for the whole image. Gap: "
    "insertion - deletion. Excess: the gap minus that of a random order, what the map earns. / p: divided by "
    "p, image by image, which takes confidence out. Gap of unseen: over images that no client of the cluster "
    "trains on. Empty: share of maps that order no pixels."
)


def own_scores(explained: Sequence[Explained], on: str) -> Table:
    """Return the table of one distribution, of scenarios with one number of clients."""
    (clients,) = {model.scenario[1] for model in explained}
    chosen_models = [model for model in explained if model.on == on]
    algorithms = tuple(dict.fromkeys(model.algorithm for model in explained))
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    has_seen = any(model.weight > model.unseen for model in chosen_models)
    chosen_scores = [score for score in OWN_SCORES if score is not UNSEEN_GAP or has_seen]
    parts: list[tuple[str, Sequence[str]]] = [(name, (name,)) for name in datasets]
    if len(datasets) > 1:
        parts.insert(0, ("all", datasets))
    rows = []
    for name, chosen in parts:
        part = [model for model in chosen_models if model.scenario[0] in chosen]
        every = [model for model in explained if model.scenario[0] in chosen]
        by_score = [run_means([*part], on, score) for score in chosen_scores]
        for algorithm in algorithms:
            expected = {(model.scenario, model.seed) for model in every if model.algorithm == algorithm}
            cells = [
                _cell(scores.get(algorithm, {}), expected) if expected else Cell(ABSENT)
                for scores in by_score
            ]
            rows.append(Row(algorithm, tuple(cells), f"data sets: {name}" if len(parts) > 1 else ""))
    return Table(
        f"explanations-{on}-{clients}",
        f"Explanations of {DISTRIBUTIONS[on]}, {clients} clients",
        CAPTION,
        tuple(Column(score.name) for score in chosen_scores),
        bold_columns(rows, [None if score.name in NO_BEST else score.highest for score in chosen_scores]),
        corner="algorithm",
        part="data sets",
    )


def _cell(by_seed: Mapping[Any, Mapping[int, float]], expected: Collection[tuple[Any, int]]) -> Cell:
    values = {(scenario, seed): value for scenario, seeds in by_seed.items() for seed, value in seeds.items()}
    return mean_over_scenarios(values, expected=len(expected), finished=0, digits=DIGITS)
