"""Two grids side by side, paired by scenario, algorithm and seed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from fedgrid.tracking.arrays import group_by
from fedgrid.tracking.scoring.axes import format_scenario, list_innermost_keys
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
from fedgrid.tracking.scoring.paired_tests import LEAST_DIFFERENCES, compare_signed_ranks
from fedgrid.tracking.scoring.run import SETTING_OF_ALGORITHM, Run, Scenario
from fedgrid.tracking.scoring.study import Study, format_slug
from fedgrid.tracking.tables.cells import average_seeds, describe_missing_runs, over_scenarios
from fedgrid.tracking.tables.significance import EFFECT, EFFECT_COLUMNS, build_effect_cells, format_p
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, Tone, format_signed

MEASURES = (
    FINAL_ARI,
    MEAN_ARI,
    RAND_PUBLISHED,
    CLUSTERING_ROUND,
    PF1_MEAN_PUBLISHED,
    PF1_LAST_PUBLISHED,
    PA_LAST,
)
BY_ALGORITHM = attrgetter("algorithm")
MAX_NAMED = 6
"""Number of cells without a partner, and of values of a key, that a caption names."""


@dataclass(frozen=True)
class GridPair:
    """The finished runs of one scenario and algorithm in both grids, of the seeds that both have."""

    scenario: Scenario
    algorithm: str
    """Both names if they differ."""
    one: Study
    other: Study
    left_out: tuple[str, ...] = ()
    """The seeds of which only one grid has a finished run, as in `seed 3 of mine`."""

    @classmethod
    def from_studies(cls, scenario: Scenario, algorithm: str, one: Study, other: Study) -> "GridPair":
        """Pair two studies by seed; a published run, which has no seed, is paired with all seeds.

        Args:
            scenario: of the runs.
            algorithm: its name, or both names if they differ.
            one: the runs of the first grid.
            other: the runs of the other grid.
        """
        seeds_by_grid = [{run.seed for run in study.finished} for study in (one, other)]
        if one.is_archived != other.is_archived:
            return cls(scenario, algorithm, one.only(one.finished), other.only(other.finished))
        # A seed is a split and an initial model: means over different seeds differ without any difference
        # of code.
        shared_seeds = seeds_by_grid[0] & seeds_by_grid[1]
        left_out = (
            f"seed {seed} of {study.name}"
            for study, seeds in zip((one, other), seeds_by_grid, strict=True)
            for seed in sorted(seeds - shared_seeds)
        )
        mine, theirs = (
            study.only(r for r in study.finished if r.seed in shared_seeds) for study in (one, other)
        )
        return cls(scenario, algorithm, mine, theirs, tuple(left_out))

    def build_cells(self, measure: Measure) -> tuple[Cell, Cell]:
        """Build the means over the seeds of each, without a value where there is no score."""
        return average_seeds(self.one, measure), average_seeds(self.other, measure)


def build_comparison_tables(
    one: Study, other: Study, measures: Sequence[Measure] = MEASURES
) -> tuple[Table, ...]:
    """Build one table for each measure (data sets by algorithms), and one of all pairs.

    Algorithms are paired by name, and the rest by their row of the published tables. Cells and seeds with a
    finished run in only one grid are counted and named, and are in no mean. Without a pair no table has rows.
    """
    pairs, unpaired = _pair_cells(one, other)
    remarks = _describe_pairs(one, other, pairs, unpaired)
    return (
        *(_build_measure_table(measure, pairs, (one.name, other.name), remarks) for measure in measures),
        _build_pairs_table(pairs, measures, (one.name, other.name), remarks),
    )


def pair_algorithms(one: Study, other: Study) -> dict[str, str]:
    """Pair the algorithms of two grids: name in the first grid -> name of its partner in the other.

    Those with the same settings come first, since a name has only the settings that tell apart the runs of
    its own grid; then those of one name; then, since several variants share a row of the papers' tables,
    those of one row.
    """
    pairs: dict[str, str] = {}
    for read in (_read_settings, BY_ALGORITHM, attrgetter("published")):
        mine, theirs = (
            {name: {read(run) for run in runs} for name, runs in group_by(study.runs, BY_ALGORITHM).items()}
            for study in (one, other)
        )
        for algorithm, values in mine.items():
            partners = (name for name in theirs if name not in pairs.values())
            partner = next((name for name in partners if theirs[name] == values), None)
            if algorithm not in pairs and partner is not None and None not in values:
                pairs[algorithm] = partner
    return pairs


def _read_settings(run: Run) -> frozenset[tuple[str, str]] | None:
    """Read the settings of a run's algorithm; None if they are not stored, as in the archive."""
    settings = {key: value for key, value in run.keys.items() if key.startswith(SETTING_OF_ALGORITHM)}
    return frozenset({"method": run.method, **settings}.items()) if settings else None


def describe_unpaired(one: Study, other: Study) -> str:
    """Explain why two grids without a pair cannot be compared, with the seeds of each."""
    seeds = " and ".join(
        f"{', '.join(map(str, sorted({run.seed for run in study.finished})))} ({study.name})"
        for study in (one, other)
    )
    return (
        f"{one.name} and {other.name} have no finished runs of the same scenario, algorithm and seed: "
        f"nothing to pair; seeds: {seeds}; --seeds of `fedgrid run` adds some"
    )


def _pair_cells(one: Study, other: Study) -> tuple[list[GridPair], list[str]]:
    """Pair the cells in the order of the first grid, and list the names of those without a partner."""
    names = pair_algorithms(one, other)
    cells, others = ({key: c for key, c in study.cells().items() if c.finished} for study in (one, other))
    pairs, unpaired = [], []
    for scenario in dict.fromkeys((*one.scenarios, *other.scenarios)):
        for algorithm in one.algorithms:
            mine = cells.get((scenario, algorithm))
            partner = names.get(algorithm, "")
            theirs = others.get((scenario, partner))
            title = algorithm if algorithm == partner else f"{algorithm} / {partner}"
            if mine and theirs and (pair := GridPair.from_studies(scenario, title, mine, theirs)).one.runs:
                pairs.append(pair)
                # What is left at the end has no partner in the first grid.
                del others[scenario, partner]
            elif mine:
                unpaired.append(f"{format_scenario(scenario)} {algorithm} ({one.name})")
    unpaired += [f"{format_scenario(scenario)} {algorithm} ({other.name})" for scenario, algorithm in others]
    return pairs, unpaired


def _describe_pairs(one: Study, other: Study, pairs: Sequence[GridPair], unpaired: Sequence[str]) -> str:
    """Format the sentences of all captions: pairs, seeds, cells without a partner, unfinished runs."""
    words = [f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} of scenario and algorithm"]
    if one.is_archived != other.is_archived:
        archive = one if one.is_archived else other
        words[0] += f"; {archive.name} has no seeds: those of the other grid are averaged first"
    else:
        runs = sum(len(pair.one.runs) for pair in pairs)
        words[0] += f", {runs} {'pair' if runs == 1 else 'pairs'} of runs by seed, averaged first"
    is_spread = any(len(study.runs) > 1 for pair in pairs for study in (pair.one, pair.other))
    words[0] += ": mean ± standard deviation (n - 1)." if is_spread else "."
    if left_out := Counter(text for pair in pairs for text in pair.left_out):
        seeds = (text + f" in {n} pairs" * (n < len(pairs)) for text, n in left_out.items())
        words.append(f"Left out, without a partner of the same seed: {', '.join(seeds)}.")
    if differing := _find_differing_keys(pairs):
        words.append(f"Runs of a pair differ in: {', '.join(differing)}.")
    if unpaired:
        more = f", and {len(unpaired) - MAX_NAMED} more" if len(unpaired) > MAX_NAMED else ""
        words.append(
            f"{len(unpaired)} without a finished partner are left out: "
            f"{'; '.join(unpaired[:MAX_NAMED])}{more}."
        )
    words += [f"{study.name}: {describe_missing_runs(study)}" for study in (one, other) if study.unfinished]
    return " ".join(words)


def _find_differing_keys(pairs: Sequence[GridPair]) -> list[str]:
    """Find the keys of a run in which pairs differ, with both values: `training.rounds (5, 10)`.

    Settings of the algorithm are left out where the pair is of two algorithms.
    """
    differences: dict[str, dict[str, None]] = {}
    for pair in pairs:
        one, other = pair.one.runs[0], pair.other.runs[0]
        # An older grid lacks the keys of newer versions, which is a difference too.
        values = {
            key: (one.keys.get(key, "none"), other.keys.get(key, "none"))
            for key in one.keys.keys() | other.keys.keys()
        }
        for key in list_innermost_keys(key for key, (mine, theirs) in values.items() if mine != theirs):
            # Runs are paired by seed or averaged over seeds, and another algorithm's settings have no
            # counterpart.
            if key != "seed" and not (key.startswith(SETTING_OF_ALGORITHM) and one.method != other.method):
                differences.setdefault(key, {})[" against ".join(values[key])] = None
    return [f"{key} ({', '.join(list(differences[key])[:MAX_NAMED])})" for key in sorted(differences)]


def _build_measure_table(
    measure: Measure, pairs: Sequence[GridPair], names: tuple[str, str], remarks: str
) -> Table:
    """Build the table of one measure: means, their difference, effect and p, by data set and algorithm."""
    rows = (
        Row(algorithm, _build_cells(own, measure), dataset)
        for dataset, dataset_pairs in group_by(pairs, lambda pair: pair.scenario[0]).items()
        for algorithm, own in group_by(dataset_pairs, attrgetter("algorithm")).items()
    )
    return Table(
        f"compare-{format_slug(measure.name)}",
        f"{measure.name}: {names[0]} and {names[1]}",
        f"Means over the scenarios in which both grids have the {measure.name}, and their difference. "
        f"{EFFECT} p: two-sided exact signed-rank test, not corrected for the number of tests; scenarios "
        f"of a data set share its images and are not independent. Effects are of {LEAST_DIFFERENCES} pairs "
        f"or more, p of as many that differ. {remarks}",
        tuple(map(Column, ("pairs", *names, "difference", *EFFECT_COLUMNS, "p"))),
        tuple(rows),
        corner="algorithm",
        part="data set",
    )


def _build_cells(pairs: Sequence[GridPair], measure: Measure) -> tuple[Cell, ...]:
    """Build pairs, both means, difference, effect and p over the scenarios of a data set and algorithm."""
    complete = [pair for pair in pairs if all(cell.value is not None for cell in pair.build_cells(measure))]
    count = Cell(str(len(complete)), float(len(complete)))
    if len(complete) < len(pairs):
        count = Cell(f"{len(complete)} of {len(pairs)}", float(len(complete)), tone="partial")
    if not complete:
        return count, *([Cell(NONE)] * (4 + len(EFFECT_COLUMNS)))
    scores_S2 = np.array(
        [[cell.value for cell in pair.build_cells(measure)] for pair in complete], np.float64
    )
    means = scores_S2.mean(axis=0)
    difference = float(means[0] - means[1])
    test = compare_signed_ranks(scores_S2[:, 0], scores_S2[:, 1])
    return (
        count,
        # One study of all pairs' runs, so that the spread is that of means over scenarios, not of single
        # cells.
        over_scenarios(complete[0].one.only(run for pair in complete for run in pair.one.runs), measure),
        over_scenarios(complete[0].other.only(run for pair in complete for run in pair.other.runs), measure),
        Cell(format_signed(difference, measure.digits), difference, tone=_choose_tone(difference, measure)),
        *(
            build_effect_cells(test)
            if len(complete) >= LEAST_DIFFERENCES
            else [Cell(NONE)] * len(EFFECT_COLUMNS)
        ),
        Cell(format_p(test.p), test.p) if test.is_testable else Cell(NONE),
    )


def _build_pairs_table(
    pairs: Sequence[GridPair], measures: Sequence[Measure], names: tuple[str, str], remarks: str
) -> Table:
    """Build the table of all pairs: a row for each scenario and algorithm, a column for each measure."""
    return Table(
        "compare-scenarios",
        f"All pairs: {names[0]} and {names[1]}",
        f"{names[0]} / {names[1]}, means over seeds. –: no such score. {remarks}",
        tuple(Column(measure.name) for measure in measures),
        tuple(
            Row(
                pair.algorithm,
                tuple(_build_pair_cell(*pair.build_cells(measure), measure) for measure in measures),
                format_scenario(pair.scenario),
            )
            for pair in pairs
        ),
        corner="algorithm",
        part="scenario",
    )


def _build_pair_cell(mine: Cell, theirs: Cell, measure: Measure) -> Cell:
    """Build the cell of one pair: both means, coloured if they differ as printed."""
    difference = 0.0 if mine.value is None or theirs.value is None else mine.value - theirs.value
    return Cell(
        NONE if mine.text == theirs.text == NONE else f"{mine.text} / {theirs.text}",
        mine.value,
        mine.spread,
        mine.count,
        mine.seeds,
        # By the printed text: means that a reader sees as equal have no colour.
        tone=_choose_tone(difference, measure)
        if mine.text.split(" ")[0] != theirs.text.split(" ")[0]
        else "",
        reference=theirs.value,
    )


def _choose_tone(difference: float, measure: Measure) -> Tone:
    """Choose the colour of a difference: better or worse for the first grid, none if it rounds to 0."""
    if measure.highest is None or not round(difference, measure.digits):
        return ""
    return "better" if (difference > 0) == measure.highest else "worse"
