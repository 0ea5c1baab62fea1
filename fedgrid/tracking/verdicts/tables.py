"""Tables of an arena: all methods of a question, their accuracy within equal budgets, their ranks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from operator import attrgetter

from fedgrid.tracking.names import names_line
from fedgrid.tracking.scoring.paired_tests import LEVEL
from fedgrid.tracking.tables.significance import format_p
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, embolden_columns, format_fixed
from fedgrid.tracking.verdicts.families import BUDGETS, compute_accuracy_within_budget, compute_harm
from fedgrid.tracking.verdicts.field import (
    BNC,
    CLUSTERING,
    FINE_TUNED,
    SOLO,
    Field,
    group_by_method,
    label_blocks,
    rank_without_datasets,
)
from fedgrid.tracking.verdicts.outcomes import Outcome, Protocol
from fedgrid.tracking.verdicts.verdict import CLASSES, OWN_METHOD, PairVerdict, run_planned_tests

MAX_NAMED = 6
"""Largest number of rivals or kinds that a sentence names."""
RANK_PLACEHOLDERS = {"": "not given", "number": "given k", "groups": "given groups"}
"""Text in place of the rank of methods of another class."""


def describe_protocol(protocol: Protocol, budget: int) -> str:
    """Describe a protocol in words."""
    return "models as served" if protocol == "served" else f"{budget} steps of fine-tuning for all"


def describe_names(outcomes: Iterable[Outcome]) -> str:
    """Format a sentence on the methods' names in papers; empty if they have no other names."""
    return names_line({outcome.method: outcome.title for outcome in outcomes})


def describe_diverged(outcomes: Iterable[Outcome]) -> str:
    """Format a sentence on the runs that have diverged; empty if none has."""
    counts = Counter(outcome.method for outcome in outcomes if outcome.is_diverged)
    named = ", ".join(f"{method} {count}" for method, count in sorted(counts.items()))
    return f"Runs that diverged, and count with accuracy 0: {named}." if named else ""


def build_methods_table(
    fields: Sequence[Field], name: str, title: str, subjects: Sequence[str], *, explained: bool = False
) -> Table:
    """Build the table of a question: a section for each class, by mean rank, then methods without a rank.

    Args:
        fields: of the classes.
        name: of the table's files.
        title: of the table.
        subjects: methods whose planned comparisons are tested.
        explained: another table on the page explains the columns (default False).
    """
    first = fields[0]
    tests = _run_tests(fields, subjects)
    sentences = [f"Means over {first.scope}."]
    if not explained:
        sentences += [_OWN[first.question.name], _HELD_OUT if _has_held_out(first) else "", _TESTS]
    sentences += [
        f"Planned for {subject}: {len(pairs) // 2} comparisons." for subject, pairs in tests.items()
    ]
    anchors = [
        (anchor, pairs)
        for subject, pairs in tests.items()
        for anchor in (subject, *([BNC] if subject == OWN_METHOD and (subject, BNC) in pairs else []))
    ]
    rows = [
        Row(
            # Means over other families than those of the first class do not compare with its.
            method if field.blocks == first.blocks else f"{method} ({len(field.blocks)} families)",
            (
                *build_score_cells(field, method),
                *_build_own_cells(field, method),
                *(_build_test_cell(pairs.get((method, anchor))) for anchor, pairs in anchors),
            ),
            CLASSES[field.knowledge],
        )
        for field in fields
        for method in field.ranks
    ]
    competing = {method for field in fields for method in field.ranks}
    rows += [
        Row(
            first.format_label(method),
            (
                *build_score_cells(first, method),
                *_build_own_cells(first, method),
                *(Cell(NONE) for _ in anchors),
            ),
            _find_unranked_section(first, method),
            is_reference=True,
        )
        for method in first.outcomes
        if method not in competing
    ]
    columns = (
        *build_score_columns(first),
        *_build_own_columns(first),
        *(Column(f"against {anchor}") for anchor, _ in anchors),
    )
    return Table(
        name,
        title,
        " ".join(filter(None, sentences)),
        columns,
        embolden_columns(rows, columns),
        corner="method",
    )


def _find_unranked_section(field: Field, method: str) -> str:
    """Find the section of a method without a rank."""
    if field.is_reference(method):
        return "references"
    return "no rank" if field.format_label(method) == method else "no rank: fewer families"


def _run_tests(
    fields: Sequence[Field], subjects: Sequence[str]
) -> dict[str, dict[tuple[str, str], PairVerdict]]:
    """Run the planned tests of each subject that competes in one of the fields."""
    return {
        subject: pairs
        for field in fields
        for subject in subjects
        if (pairs := run_planned_tests(field, subject))
    }


def _build_test_cell(verdict: PairVerdict | None) -> Cell:
    """Build the cell of a planned test: its verdict, and p in brackets."""
    if verdict is None:
        return Cell(NONE)
    return Cell(f"{verdict.verdict} ({format_p(verdict.p)})", verdict.p)


_TESTS = (
    "Against a method: the verdict of the exact sign-flip test over kinds of clients, with p after Holm's "
    "correction for the planned comparisons. Nothing else is tested; ranks and means describe."
)
_HELD_OUT = "Held-out clients: mean accuracy of clients that never train, in the families that have some."
_SPLITS = (
    "False splits: runs with several clusters in families without groups, the exact 95 % interval of their "
    "share, and in how many of these families."
)
_OWN = {
    "clustering": (
        "Exactly right: runs whose last clusters are the hidden groups. Clusters: mean number of the last; "
        f"oracle has the true one. {_SPLITS}"
    ),
    "serving": (
        "% worse than: of the clients, those served worse than by solo, or by fedavg with fine-tuning "
        "(FedAvg-FT), in the same family and seed; in brackets the family with the most."
    ),
}


def build_score_columns(field: Field) -> tuple[Column, Column]:
    """Build the columns of `build_score_cells`."""
    score = "ARI" if field.question is CLUSTERING else "accuracy"
    return Column("rank", highest=False), Column(score, highest=True)


def build_score_cells(field: Field, method: str) -> list[Cell]:
    """Build the cells of a method's mean rank, or the reason for none, and its mean score."""
    own, rank = field.outcomes[method][0], field.ranks.get(method)
    # A rank among methods with another hint would compare unequal problems.
    other = NONE if own.is_reference else RANK_PLACEHOLDERS[own.told]
    score = field.average_method(method, attrgetter(field.question.score))
    return [Cell(other) if rank is None else Cell(format_fixed(rank, 1), rank), _build_number_cell(score)]


def _build_own_columns(field: Field) -> tuple[Column, ...]:
    """Build the columns of `_build_own_cells`."""
    if field.question is CLUSTERING:
        return Column("exactly right", highest=True), Column("clusters"), *SPLIT_COLUMNS
    return (
        Column("worst tenth", highest=True),
        *([Column("held-out clients", highest=True)] if _has_held_out(field) else []),
        *(Column(f"% worse than {baseline}", highest=False) for baseline in (SOLO, FINE_TUNED)),
    )


def _build_own_cells(field: Field, method: str) -> list[Cell]:
    """Build the cells of a method that are in no test, beyond its score."""
    own = field.outcomes[method]
    if field.question is CLUSTERING:
        right = sum(outcome.exactly_right == 1 for outcome in own)
        clusters = _build_number_cell(field.average_method(method, attrgetter("clusters")), 1)
        return [
            Cell(f"{right}/{len(own)}", right / len(own)),
            clusters,
            *_build_split_cells(field.without_groups.get(method, ())),
        ]
    names = ["worst_tenth_accuracy", *(["held_out_accuracy"] if _has_held_out(field) else [])]
    cells = [_build_number_cell(field.average_method(method, attrgetter(name))) for name in names]
    return [*cells, *(_build_harm_cell(field, method, baseline) for baseline in (SOLO, FINE_TUNED))]


def _has_held_out(field: Field) -> bool:
    """Check whether any outcome has clients that never train, which only serving shows."""
    every = (one for own in field.outcomes.values() for one in own)
    return field.question is not CLUSTERING and any(not isnan(one.held_out_accuracy) for one in every)


def _build_number_cell(value: float, digits: int = 3) -> Cell:
    """Build the cell of a number, a dash for NaN."""
    return Cell(NONE) if isnan(value) else Cell(format_fixed(value, digits), value)


SPLIT_COLUMNS = tuple(map(Column, ("false splits", "95 %", "in families")))


def build_false_split_table(outcomes: Iterable[Outcome]) -> Table:
    """Build the table of false splits; all outcomes are of families without groups."""
    rows = tuple(
        Row(method, tuple(_build_split_cells(own))) for method, own in group_by_method(outcomes).items()
    )
    return Table("null", "False splits", _SPLITS, SPLIT_COLUMNS, rows, corner="method")


def _build_split_cells(own: Sequence[Outcome]) -> list[Cell]:
    """Build the cells of `SPLIT_COLUMNS`; all outcomes are of families without groups.

    The interval of the share is exact (Clopper and Pearson 1934, Biometrika 26), for independent runs.
    """
    from scipy.stats import binomtest

    if not own:
        return [Cell(NONE)] * len(SPLIT_COLUMNS)
    split = [outcome for outcome in own if outcome.clusters > 1]
    interval = binomtest(len(split), len(own)).proportion_ci(LEVEL)
    families, num_families = (len({one.block for one in group}) for group in (split, own))
    return [
        Cell(f"{len(split)}/{len(own)}", len(split) / len(own)),
        Cell(f"{format_fixed(100 * interval.low, 0)}–{format_fixed(100 * interval.high, 0)} %"),
        Cell(f"{families}/{num_families}", families / num_families),
    ]


def _build_harm_cell(field: Field, method: str, baseline: str) -> Cell:
    """Build the cell of the mean share of harmed clients, with the family that has the most."""
    shares = compute_harm(field, method, baseline)
    if not shares:
        return Cell(NONE)
    mean = sum(shares.values()) / len(shares)
    worst = max(shares, key=lambda block: shares[block])
    at_worst = (
        f" ({label_blocks(shares)[worst]} {format_fixed(100 * shares[worst], 0)})" if shares[worst] else ""
    )
    return Cell(f"{format_fixed(100 * mean, 0)}{at_worst}", mean)


def build_cost_table(serving: Mapping[str, Sequence[Field]]) -> Table:
    """Build the table of the accuracy of each method within equal budgets.

    `serving` has the fields of each protocol, by its description.
    """
    fields = {words: protocol_fields[0] for words, protocol_fields in serving.items()}
    first = next(iter(fields.values()))
    rows = []
    for method in first.outcomes:
        by_bytes, by_rounds = (
            [
                _build_number_cell(
                    compute_accuracy_within_budget(field, method, share, counts_rounds=counts_rounds)
                    if method in field.outcomes
                    else nan
                )
                for field in fields.values()
                for share in BUDGETS
            ]
            for counts_rounds in (False, True)
        )
        sent, name = first.average_method(method, attrgetter("megabytes")), first.format_label(method)
        # Means over other families are not compared: such a method is not marked as the best.
        is_apart = first.is_reference(method) or name != method
        rows.append(Row(name, (Cell(f"{sent:.3g}", sent), *by_bytes), is_reference=is_apart))
        # Most methods send as much in a round as FedAvg, and their second row would repeat the first.
        if by_rounds != by_bytes:
            rows.append(Row(f"{method}, by rounds", (Cell(NONE), *by_rounds), is_reference=True))
    columns = (
        Column("MB"),
        *(Column(f"{share:.0%}", words, highest=True) for words in fields for share in BUDGETS),
    )
    return Table(
        "cost",
        "Accuracy within equal budgets",
        "At the last test within a share of what fedavg sends in the whole run (MB: mean over families), and "
        "within that share of its rounds if this is another number. A round has the same passes over the "
        "clients' training images for all, and in ifca one more for each model to choose from. Clients of "
        "ifca and flis-dc get all models. –: no test by then.",
        columns,
        embolden_columns(rows, columns),
        corner="method",
    )


def build_ranks_without_table(fields: Mapping[str, Field]) -> Table | None:
    """Build the table of mean ranks without each data set, by heading; None with a single data set."""
    left_out = {
        heading: ranks for heading, field in fields.items() if (ranks := rank_without_datasets(field))
    }
    if not left_out:
        return None
    columns = [(heading, name) for heading, ranks in left_out.items() for name in ranks]
    methods = dict.fromkeys(method for heading in left_out for method in fields[heading].ranks)

    def build_cell(heading: str, name: str, method: str) -> Cell:
        """Build the cell of one method's rank, a dash if it has none."""
        rank = left_out[heading][name].get(method)
        return Cell(NONE) if rank is None else Cell(format_fixed(rank, 1), rank)

    return Table(
        "without-data-sets",
        "Mean ranks without a data set",
        "Mean ranks over the families of the other data sets; 1 is the best.",
        tuple(Column(f"without {name}", heading) for heading, name in columns),
        tuple(Row(method, tuple(build_cell(*place, method) for place in columns)) for method in methods),
        corner="method",
    )
