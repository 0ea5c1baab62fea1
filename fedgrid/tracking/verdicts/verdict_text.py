"""Verdicts as sentences, as tables, as a page, and as dictionaries for programs."""

from collections.abc import Iterator, Sequence
from math import isinf
from typing import Any

from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.tables.formats import to_markdown
from fedgrid.tracking.tables.significance import format_p
from fedgrid.tracking.tables.table import (
    NONE,
    Cell,
    Column,
    Row,
    Table,
    embolden_columns,
    format_fixed,
    format_signed,
)
from fedgrid.tracking.verdicts.families import FamilyResult, summarise_families
from fedgrid.tracking.verdicts.field import BNC, CLUSTERING, SERVING
from fedgrid.tracking.verdicts.outcomes import Block
from fedgrid.tracking.verdicts.power import POWER, count_kinds_needed
from fedgrid.tracking.verdicts.tables import (
    MAX_NAMED,
    build_score_cells,
    build_score_columns,
    describe_protocol,
)
from fedgrid.tracking.verdicts.verdict import CLASSES, RivalComparison, Verdict

KINDS = {"better": "better than", "worse": "worse than", "not shown": "undecided with"}


def format_verdict_page(verdicts: Sequence[Verdict], budget: int, notes: Sequence[str], below: str) -> str:
    """Format all verdicts in Markdown, sentences first, then tables.

    Args:
        verdicts: in the order of the page.
        budget: number of fine-tuning steps of the protocol `fine-tuned`.
        notes: remarks on the arena, a list below the sentences.
        below: the results of all methods in Markdown, empty for none.
    """
    sentences = "\n".join(f"- {format_sentence(verdict, budget)}" for verdict in verdicts) or "None."
    shown = "\n".join(map(to_markdown, build_verdict_tables(verdicts, budget)))
    remarks = "".join(f"- {note}\n" for note in notes)
    return f"# Verdict\n\n{sentences}\n\n{remarks}\n{shown}" + (f"\n{below}" if below else "")


def build_verdict_tables(verdicts: Sequence[Verdict], budget: int) -> list[Table]:
    """Build the table of each verdict, then the tables of each method family by family."""
    return [
        *(build_verdict_table(verdict, budget) for verdict in verdicts),
        *build_family_tables(verdicts, budget),
    ]


def build_verdict_table(verdict: Verdict, budget: int) -> Table:
    """Build the table of a verdict: a row for each method, and the comparison with it."""
    field = verdict.field
    against = {comparison.rival: comparison for comparison in verdict.against}
    shown = ("difference", "95 %", "p", "shows from", "verdict")
    columns = (*build_score_columns(field), *map(Column, shown))
    rows = [
        Row(
            field.format_label(method),
            (*build_score_cells(field, method), *_build_rival_cells(against.get(method))),
            is_reference=method not in field.ranks,
        )
        for method in field.outcomes
    ]
    return Table(
        f"verdict-{verdict.method}-{field.question.name}-{field.protocol}",
        f"{verdict.method}, {field.question.name}{_format_protocol(verdict, budget)}",
        _format_caption(verdict),
        columns,
        embolden_columns(rows, columns),
        corner="method",
    )


def format_sentence(verdict: Verdict, budget: int) -> str:
    """Format a verdict in words: the power of the test, and what is shown."""
    field = verdict.field
    parts = []
    # Undecided rivals are named too: a list of wins alone would hide what could not be shown.
    for kind, words in KINDS.items():
        if rivals := [against.rival for against in verdict.against if against.verdict == kind]:
            parts.append(f"{words} {len(rivals)} of {_count_rivals(verdict)} ({_abbreviate_names(rivals)})")
    is_what = f"Over these families {verdict.method} is {', '.join(parts)}."
    subject = f"{field.question.name}{_format_protocol(verdict, budget)}, methods {CLASSES[field.knowledge]}"
    return f"{subject}: {_describe_power(verdict)} {is_what}"


def _format_protocol(verdict: Verdict, budget: int) -> str:
    """Format the protocol in brackets, which only serving has."""
    field = verdict.field
    return "" if field.question is CLUSTERING else f" ({describe_protocol(field.protocol, budget)})"


def _count_rivals(verdict: Verdict) -> str:
    """Count the rivals in words."""
    count = len(verdict.against)
    return f"{count} rival{'s' * (count > 1)}"


def _abbreviate_names(names: Sequence[str]) -> str:
    """List names, at most `MAX_NAMED` of them, and the number of the others."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"


def _describe_power(verdict: Verdict) -> str:
    """Describe the differences that these families can show."""
    field = verdict.field
    if verdict.shows_nothing:
        return (
            f"{field.scope} cannot show any difference from {_count_rivals(verdict)}: the test needs "
            f"{count_kinds_needed(verdict.num_tests)} kinds in which two methods differ, and more where some "
            "favour the other."
        )
    shown = sorted((one.least, one.rival) for one in verdict.against if not isinf(one.least))
    # The easiest and the hardest rival; one of them if they need the same difference.
    ends = dict.fromkeys(f"{format_fixed(least, 3)} (from {rival})" for least, rival in (shown[0], shown[-1]))
    none = [against.rival for against in verdict.against if isinf(against.least)]
    none_words = f"; from {_abbreviate_names(none)} none, however large" if none else ""
    return f"{field.scope} show a mean difference of at least {' to '.join(ends)}{none_words}."


def verdict_to_dict(verdict: Verdict, budget: int) -> dict[str, Any]:
    """Convert a verdict to a dictionary for programs; None stands for a number that there is none of."""
    return {
        "question": verdict.field.question.name,
        "protocol": verdict.field.protocol,
        "told": verdict.field.knowledge,
        "method": verdict.method,
        "families": len(verdict.field.blocks),
        "kinds": len(verdict.field.kinds),
        "tests": verdict.num_tests,
        "text": format_sentence(verdict, budget),
        "rivals": [
            {
                "method": against.rival,
                "difference": against.difference,
                "interval": against.interval,
                "p": against.p,
                # JSON has no infinity.
                "shows_from": None if isinf(against.least) else against.least,
                "verdict": against.verdict,
            }
            for against in verdict.against
        ],
    }


def _format_caption(verdict: Verdict) -> str:
    """Format the caption of a verdict's table: power, question, and the meaning of the columns."""
    field = verdict.field
    return " ".join(
        (
            _describe_power(verdict),
            f"Question: {field.question.words}?",
            f"Difference: {verdict.method} minus the row's method, mean over kinds of clients, with its 95 % "
            "interval by a bootstrap over kinds; ranks and scores are means over families.",
            f"p: exact sign-flip test over kinds, Holm's correction for {verdict.num_tests} planned "
            f"comparison{'s' * (verdict.num_tests > 1)}; below {ALPHA} the verdict is better or worse.",
            f"Shows from: the least mean difference that {POWER:.0%} of such arenas would show, with ties "
            "and sizes of differences as here. "
            "References, and methods that are given more or less, are neither ranked nor tested.",
        )
    )


def _build_rival_cells(against: RivalComparison | None) -> list[Cell]:
    """Build the cells of the comparison with one rival; dashes for a method that is no rival."""
    if against is None:
        return [Cell(NONE)] * 5
    low, high = (format_signed(bound, 3) for bound in against.interval)
    return [
        Cell(format_signed(against.difference, 3), against.difference),
        Cell(f"{low} to {high}"),
        Cell(format_p(against.p), against.p, bold=against.p < ALPHA),
        Cell(NONE) if isinf(against.least) else Cell(format_fixed(against.least, 3), against.least),
        Cell(against.verdict, bold=against.p < ALPHA),
    ]


def build_family_tables(verdicts: Sequence[Verdict], budget: int) -> Iterator[Table]:
    """Build a table for each verdict on serving: the method family by family, and its failures there."""
    for verdict in verdicts:
        if verdict.field.question is SERVING:
            groups = next(
                (
                    summarise_families(one.field, one.method)
                    for one in verdicts
                    if one.method == verdict.method and one.field.question is CLUSTERING
                ),
                {},
            )
            yield _build_family_table(verdict, groups, budget)


def _build_family_table(verdict: Verdict, groups: dict[Block, FamilyResult], budget: int) -> Table:
    """Build the table of one method family by family."""
    field, method = verdict.field, verdict.method
    places = summarise_families(field, method)
    rows = []
    for block, label in field.labels.items():
        own = field.scores[method][block]
        rivals = {name: field.scores[name][block] for name in field.ranks if name != method}
        best = max(rivals, key=lambda name: rivals[name])
        # Equal scores share the better rank.
        rank = 1 + sum(score > own for score in rivals.values())
        # From the difference, which is NaN where the baseline has no result in one of the seeds.
        bnc = own - places[block].above_baseline[BNC]
        cells = (
            Cell(format_fixed(own, 3), own),
            Cell(f"{format_fixed(rivals[best], 3)} {best}", rivals[best]),
            Cell(NONE) if bnc != bnc else Cell(format_fixed(bnc, 3), bnc),
            Cell(f"{rank}/{len(field.ranks)}", float(rank)),
            Cell(", ".join(_list_failures(places[block], groups.get(block))) or NONE),
        )
        rows.append(Row(label, cells))
    return Table(
        f"families-{method}-{field.protocol}",
        f"{method}, family by family{_format_protocol(verdict, budget)}",
        "Accuracy, mean over seeds; best rival and rank among methods of its class.",
        tuple(map(Column, (method, "best rival", BNC, "rank", "failed"))),
        tuple(rows),
        corner="family",
    )


def _list_failures(place: FamilyResult, groups: FamilyResult | None) -> Iterator[str]:
    """List the failures of a method in a family: groups not found, a false split, or worse than FedAvg."""
    if groups is not None and groups.exactly_right < groups.seeds:
        what = "groups not found" if groups.has_groups else "false split"
        yield f"{what} in {groups.seeds - groups.exactly_right} of {groups.seeds}"
    if place.above_baseline[BNC] < 0:
        yield f"worse than {BNC}"
