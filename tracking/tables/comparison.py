"""Two grids side by side, paired by scenario and algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring.axes import setting_words
from fedgrid.tracking.scoring.measures import (
    CLUSTERING_ROUND,
    FINAL_ARI,
    MEAN_ARI,
    PA_LAST,
    PF1_LAST_PUBLISHED,
    PF1_MEAN_PUBLISHED,
    RAND_PUBLISHED,
    Measure,
)
from fedgrid.tracking.scoring.statistics import LEAST_SCENARIOS, wilcoxon
from fedgrid.tracking.scoring.study import Scenario, Study, slug
from fedgrid.tracking.tables.cells import lacking
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, Tone, fixed

MEASURES = (
    FINAL_ARI,
    MEAN_ARI,
    RAND_PUBLISHED,
    CLUSTERING_ROUND,
    PF1_MEAN_PUBLISHED,
    PF1_LAST_PUBLISHED,
    PA_LAST,
)
NAMED = 6
"""Number of cells without a partner that a caption names."""


@dataclass(frozen=True)
class Pair:
    """The finished runs of one scenario and algorithm in both grids."""

    scenario: Scenario
    algorithm: str
    """Both names if they differ."""
    one: Study
    other: Study

    def scores(self, measure: Measure) -> tuple[float, float]:
        """Return the means over the seeds of each, NaN without a score."""
        return _score(self.one, measure), _score(self.other, measure)


def compare(one: Study, other: Study) -> tuple[Table, ...]:
    """Return one table per measure (data sets by algorithms), and one of all pairs.

    Algorithms are paired by name, and the rest by their row of the published tables. Cells with a finished
    run in only one grid are counted and named, and are in no mean.
    """
    names = paired_algorithms(one, other)
    pairs, unpaired = _pairs(one, other, names)
    remarks = _remarks(one, other, pairs, unpaired)
    return (
        *(_of_measure(measure, pairs, (one.name, other.name), remarks) for measure in MEASURES),
        _of_pairs(pairs, (one.name, other.name), remarks),
    )


def paired_algorithms(one: Study, other: Study) -> dict[str, str]:
    """Return algorithm of the first grid -> its partner in the other."""
    pairs = {name: name for name in one.algorithms if name in other.algorithms}
    rest = {run.algorithm: run.published for run in other.runs if run.algorithm not in pairs}
    for algorithm, published in {run.algorithm: run.published for run in one.runs}.items():
        partner = next((name for name, row in rest.items() if row is not None and row == published), None)
        if algorithm not in pairs and partner is not None:
            pairs[algorithm] = partner
            del rest[partner]
    return pairs


def _pairs(one: Study, other: Study, names: dict[str, str]) -> tuple[list[Pair], list[str]]:
    """Return the pairs in the order of the first grid, and the names of the cells without a partner."""
    cells, others = ({key: c for key, c in study.cells().items() if c.finished} for study in (one, other))
    pairs, unpaired = [], []
    for scenario in dict.fromkeys((*one.scenarios, *other.scenarios)):
        for algorithm in one.algorithms:
            mine = cells.pop((scenario, algorithm), None)
            theirs = others.get((scenario, names.get(algorithm, "")))
            if mine and theirs:
                partner = names[algorithm]
                title = algorithm if algorithm == partner else f"{algorithm} / {partner}"
                pairs.append(Pair(scenario, title, mine, theirs))
                del others[scenario, partner]
            elif mine:
                unpaired.append(f"{_title(scenario)} {algorithm} ({one.name})")
    unpaired += [f"{_title(scenario)} {algorithm} ({other.name})" for scenario, algorithm in others]
    return pairs, unpaired


def _remarks(one: Study, other: Study, pairs: Sequence[Pair], unpaired: Sequence[str]) -> str:
    """Return the sentences of all captions: seeds, cells without a partner, unfinished runs."""
    seeds = {study.name: sorted({run.seed for run in study.runs}) for study in (one, other)}
    counts = ", ".join(f"{name}: {len(numbers)}" for name, numbers in seeds.items())
    noun = "pair" if len(pairs) == 1 else "pairs"
    words = [f"{len(pairs)} {noun} of scenario and algorithm; seeds are averaged first ({counts})."]
    if unpaired:
        more = f", and {len(unpaired) - NAMED} more" if len(unpaired) > NAMED else ""
        words.append(
            f"{len(unpaired)} without a finished partner are left out: {'; '.join(unpaired[:NAMED])}{more}."
        )
    words += [f"{study.name}: {lacking(study)}" for study in (one, other) if study.unfinished]
    return " ".join(words)


def _of_measure(measure: Measure, pairs: Sequence[Pair], names: tuple[str, str], remarks: str) -> Table:
    rows = []
    for dataset in dict.fromkeys(pair.scenario[0] for pair in pairs):
        of_dataset = [pair for pair in pairs if pair.scenario[0] == dataset]
        for algorithm in dict.fromkeys(pair.algorithm for pair in of_dataset):
            scores_S2 = np.array(
                [pair.scores(measure) for pair in of_dataset if pair.algorithm == algorithm], np.float64
            )
            rows.append(Row(algorithm, _cells(scores_S2, measure), dataset))
    return Table(
        f"compare-{slug(measure.name)}",
        f"{measure.name}: {names[0]} and {names[1]}",
        f"Means over the scenarios in which both grids have the {measure.name}, their difference, and, with "
        f"{LEAST_SCENARIOS} pairs or more, the two-sided p of Wilcoxon's signed-rank test (not corrected for "
        f"the number of tests). {remarks}",
        tuple(map(Column, ("pairs", *names, "difference", "p"))),
        tuple(rows),
        corner="algorithm",
        part="data set",
    )


def _cells(scores_S2: Array, measure: Measure) -> tuple[Cell, ...]:
    """Return pairs, both means, difference and p; `scores_S2` has one row per scenario."""
    both_S2 = scores_S2[~np.isnan(scores_S2).any(axis=1)]
    num_pairs, asked = len(both_S2), len(scores_S2)
    count = Cell(
        str(num_pairs) if num_pairs == asked else f"{num_pairs} of {asked}",
        float(num_pairs),
        tone="" if num_pairs == asked else "partial",
    )
    if not num_pairs:
        return count, *([Cell(NONE)] * 4)
    means = both_S2.mean(axis=0)
    difference = float(means[0] - means[1])
    p = wilcoxon(both_S2[:, 0], both_S2[:, 1]) if num_pairs >= LEAST_SCENARIOS else None
    return (
        count,
        *(Cell(fixed(float(value), measure.digits), float(value)) for value in means),
        Cell(_signed(difference, measure.digits), difference, tone=_tone(difference, measure)),
        Cell(NONE) if p is None else Cell(fixed(p, 3), p),
    )


def _of_pairs(pairs: Sequence[Pair], names: tuple[str, str], remarks: str) -> Table:
    return Table(
        "compare-scenarios",
        f"All pairs: {names[0]} and {names[1]}",
        f"{names[0]} / {names[1]}, means over seeds. –: no such score. {remarks}",
        tuple(Column(measure.name) for measure in MEASURES),
        tuple(
            Row(
                pair.algorithm,
                tuple(_both(*pair.scores(measure), measure) for measure in MEASURES),
                _title(pair.scenario),
            )
            for pair in pairs
        ),
        corner="algorithm",
        part="scenario",
    )


def _both(mine: float, theirs: float, measure: Measure) -> Cell:
    texts = [NONE if np.isnan(value) else fixed(value, measure.digits) for value in (mine, theirs)]
    difference = mine - theirs
    return Cell(
        NONE if texts == [NONE, NONE] else " / ".join(texts),
        None if np.isnan(mine) else mine,
        tone="" if np.isnan(difference) or texts[0] == texts[1] else _tone(difference, measure),
        reference=None if np.isnan(theirs) else theirs,
    )


def _tone(difference: float, measure: Measure) -> Tone:
    if measure.highest is None or not round(difference, measure.digits):
        return ""
    return "better" if (difference > 0) == measure.highest else "worse"


def _score(study: Study, measure: Measure) -> float:
    values = [measure.of(result) for result in study.finished]
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else float("nan")


def _signed(value: float, digits: int) -> str:
    text = fixed(value, digits)
    return f"+{text}" if value > 0 and float(text) else text


def _title(scenario: Scenario) -> str:
    dataset, clients, overlap, balance, *setting = scenario
    return " ".join((dataset, str(clients), overlap, balance, *setting_words(setting)))
