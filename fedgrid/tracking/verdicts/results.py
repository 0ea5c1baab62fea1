"""The results of an arena as sections: sentences, tables and figures, all from its outcomes.

No sentence says more than a table beside it, and nothing is compared across protocols.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.colors import to_rgb

from fedgrid.tracking.figures import critical_difference
from fedgrid.tracking.report.page import Plate, Section
from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.tables.table import fixed
from fedgrid.tracking.verdicts import figures, result_tables
from fedgrid.tracking.verdicts.field import Field, field_of
from fedgrid.tracking.verdicts.figures import ILL, MIDDLE, WELL, Map, Point, Tile, regret_tile
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, Outcome
from fedgrid.tracking.verdicts.result_words import (
    of_clustering,
    of_defaults,
    of_families,
    of_fronts,
    of_serving,
)
from fedgrid.tracking.verdicts.tables import words_of
from fedgrid.tracking.verdicts.verdict import CLUSTERING, SERVING

TESTS = (
    "A bar joins methods of which no two are shown to differ: exact signed-rank tests over the blocks, with "
    f"Holm's correction for all pairs, level {ALPHA}."
)
COLOURS = {
    "groups right in all seeds; at least ORACLE's accuracy": WELL,
    "right in some seeds; below ORACLE": MIDDLE,
    "right in no seed; below BNC": ILL,
}


def results(outcomes: Iterable[Outcome], budget: int) -> tuple[Section, ...]:
    """Return the sections of one data set's outcomes; a question that two methods do not share has none.

    `budget` is the number of fine-tuning steps of the protocol `fine-tuned`.
    """
    outcomes = tuple(outcomes)
    clustering = field_of(outcomes, CLUSTERING, "tuned", PROTOCOLS[0])
    found = {words_of(each, budget): field_of(outcomes, SERVING, "tuned", each) for each in PROTOCOLS}
    serving = {words: field for words, field in found.items() if field is not None}
    sections = [_clustering(clustering)] if clustering else []
    sections += [_serving(field, words) for words, field in serving.items()]
    if serving:
        sections += [_cost(serving), _families(serving, clustering)]
        sections.append(_defaults(outcomes, budget, clustering, serving))
    return tuple(sections)


def _clustering(field: Field) -> Section:
    return Section(
        "clustering",
        "Clustering: are the hidden groups found?",
        of_clustering(field),
        (
            result_tables.overall(field, "clustering", "Clustering, tuned settings"),
            _ranks(field, "clustering", "ARI"),
            result_tables.groups_by_family(field, "groups-by-family"),
        ),
    )


def _serving(field: Field, words: str) -> Section:
    name = f"serving-{field.protocol}"
    return Section(
        name,
        f"Serving: {words}",
        of_serving(field),
        (
            result_tables.overall(field, name, f"Serving, tuned settings, {words}"),
            _ranks(field, name, "accuracy"),
        ),
    )


def _ranks(field: Field, name: str, score: str) -> Plate:
    # By title, as the points of `_cost`: colours and markers go by the order of names.
    by_title = sorted((field.title(method), rank) for method, rank in field.pairwise.ranking.ranks.items())
    cliques = [[field.title(method) for method in clique] for clique in field.pairwise.cliques]
    return Plate(
        f"ranks-{name}",
        f"Mean ranks by {score}",
        f"Critical differences over {field.blocks} blocks (a family and a seed). {TESTS}",
        partial(critical_difference, dict(by_title), cliques, field.blocks, noun="block"),
    )


def _cost(serving: Mapping[str, Field]) -> Section:
    points = {words: _points(field) for words, field in serving.items()}
    plate = Plate(
        "pareto",
        "Accuracy against bytes sent",
        "Means over blocks, tuned settings. The line joins the methods than which no other has as much "
        "accuracy for as few bytes. A dotted line is a reference that sends nothing.",
        partial(figures.pareto, points),
    )
    return Section("cost", "Accuracy against bytes", of_fronts(points), (plate,))


def _points(field: Field) -> dict[str, Point]:
    found = {
        standing.title: Point(
            float(np.mean([each.megabytes for each in field.outcomes if each.method == method])),
            standing.score,
            standing.is_reference,
        )
        for method, standing in field.standings.items()
    }
    return dict(sorted(found.items()))


def _families(serving: Mapping[str, Field], clustering: Field | None) -> Section:
    maps = {"groups found (ARI)": _found(clustering)} if clustering else {}
    maps |= {words: _served(field) for words, field in serving.items()}
    order = [standing.title for standing in next(iter(serving.values())).standings.values()]
    regrets = {words: _regrets(field) for words, field in serving.items()}
    failures = Plate(
        "failures",
        "Map of failures",
        "Rows by mean rank, models as served. Numbers: at the left mean ARI; else in how many seeds clients "
        "are served worse than by BNC. Grey: nothing to find, or no clusters formed.",
        partial(figures.tiles, {title: _ordered(each, order) for title, each in maps.items()}, COLOURS),
    )
    plate = Plate(
        "regret",
        "Regret against ORACLE",
        "ORACLE's accuracy less the method's, in percentage points, mean over seeds. Red: ORACLE is better; "
        "blue: the method is. Where clients differ without groups ORACLE is no upper bound.",
        partial(figures.tiles, {title: _ordered(each, order) for title, each in regrets.items()}),
    )
    tables = [
        result_tables.regret(field, f"regret-{field.protocol}", f"Regret against ORACLE, {words}")
        for words, field in serving.items()
    ]
    return Section("families", "Family by family", of_families(serving), (failures, plate, *tables))


def _ordered(cells: Map, order: Sequence[str]) -> Map:
    """Return a map with a row for each method, in this order; ORACLE cannot be below itself."""
    return {title: cells.get(title, {}) for title in order if title != "ORACLE"}


def _found(field: Field) -> Map:
    return {
        field.title(method): {
            family: Tile(
                to_rgb(WELL if there.is_right else MIDDLE if there.right else ILL), fixed(there.ari, 2)
            )
            for family in field.names_of_families
            if (there := field.families[method].get(family))
        }
        for method in field.standings
    }


def _served(field: Field) -> Map:
    return {
        field.title(method): {
            family: Tile(
                to_rgb(ILL if there.gain < 0 else MIDDLE if there.regret > 0 else WELL),
                str(there.below_bnc or ""),
            )
            for family in field.names_of_families
            if (there := field.families[method].get(family))
        }
        for method in field.standings
    }


def _regrets(field: Field) -> Map:
    return {
        field.title(method): {
            family: regret_tile(there.regret)
            for family in field.names_of_families
            if (there := field.families[method].get(family))
        }
        for method in field.standings
    }


def _defaults(
    outcomes: Sequence[Outcome], budget: int, clustering: Field | None, serving: Mapping[str, Field]
) -> Section:
    columns: list[tuple[str, Field | None, Field]] = []
    if clustering:
        columns.append(("ARI", field_of(outcomes, CLUSTERING, "default", PROTOCOLS[0]), clustering))
    for words, field in serving.items():
        columns.append((f"accuracy, {words}", field_of(outcomes, SERVING, "default", field.protocol), field))
    first = next(iter(serving.values()))
    titles = {method: first.title(method) for method in first.competing}
    table = result_tables.tuned_beside_default(columns, titles, "defaults")
    return Section("defaults", "What tuning changes", of_defaults(columns, titles), (table,))
