"""Verdicts as tables and sentences, and all of them as a page in Markdown."""

from collections.abc import Sequence
from math import isinf
from typing import Any

from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.tables.significance import p_text
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, fixed
from fedgrid.tracking.verdicts.against import POWER, Against
from fedgrid.tracking.verdicts.outcomes import Protocol
from fedgrid.tracking.verdicts.verdict import CLUSTERING, TARGET, Standing, Verdict

NAMED = 6
"""Rivals that a sentence names."""


def words_of(protocol: Protocol, budget: int) -> str:
    """Return a protocol in words."""
    return "models as served" if protocol == "served" else f"{budget} steps of fine-tuning for all"


def table_of(verdict: Verdict, budget: int) -> Table:
    """Return the verdict as a table: a row a method, and what is shown against it."""
    against = {each.rival: each for each in verdict.against}
    question = verdict.question
    how = f"{verdict.settings} settings"
    if question is not CLUSTERING:
        how += f", {words_of(verdict.protocol, budget)}"
    own = ("ARI", "exactly right") if question is CLUSTERING else ("accuracy", "worst tenth")
    costs = [] if question is CLUSTERING else [Column(f"MB to {TARGET:.0%}")]
    return Table(
        "-".join(("verdict", question.name, verdict.settings, verdict.protocol)),
        f"{verdict.title}, {question.name}: {how}",
        _caption(verdict),
        (
            Column("rank"),
            *map(Column, own),
            *costs,
            *map(Column, ("difference", "95 %", "effect", "p", "shows from", "verdict")),
        ),
        tuple(
            Row(
                standing.title,
                (
                    *_standing_cells(verdict, method, standing),
                    *_against_cells(against.get(method)),
                ),
                is_reference=standing.is_reference,
            )
            for method, standing in verdict.standings.items()
        ),
        corner="method",
    )


def sentence(verdict: Verdict, budget: int) -> str:
    """Return the verdict in words, with what it could not have shown."""
    groups: dict[str, list[Against]] = {"better": [], "worse": [], "not shown": []}
    for each in verdict.against:
        groups[each.verdict].append(each)
    said = [
        f"{words} {len(groups[kind])} of {len(verdict.against)} rivals{_named(verdict, groups[kind])}"
        for kind, words in (
            ("better", "better than"),
            ("worse", "worse than"),
            ("not shown", "undecided with"),
        )
        if groups[kind]
    ]
    how = f"{verdict.settings}, {words_of(verdict.protocol, budget)}"
    how = verdict.settings if verdict.question is CLUSTERING else how
    return f"{verdict.question.name} ({how}): {verdict.title} is {', '.join(said)}. {power(verdict)}"


def as_dict(verdict: Verdict, budget: int) -> dict[str, Any]:
    """Return the verdict for programs; None stands for a number that there is none of."""
    return {
        "question": verdict.question.name,
        "settings": verdict.settings,
        "protocol": verdict.protocol,
        "method": verdict.method,
        "text": sentence(verdict, budget),
        "rivals": [
            {
                "method": each.rival,
                "blocks": each.num_blocks,
                "difference": each.difference,
                "interval": None if isinf(each.interval[0]) else each.interval,
                "effect": each.effect,
                "p": each.p,
                "shows_from": None if isinf(each.least) else each.least,
                "verdict": each.verdict,
            }
            for each in verdict.against
        ],
    }


def power(verdict: Verdict) -> str:
    """Return in words the differences that these blocks cannot show."""
    blocks = f"{verdict.families} families x {verdict.seeds} seeds"
    known = sorted(each.least for each in verdict.against if not isinf(each.least))
    if not known:
        return f"{blocks} cannot show any difference from {len(verdict.against)} rivals: take more --seeds."
    if len(known) == 1 or fixed(known[0], 3) == fixed(known[-1], 3):
        spread = fixed(known[-1], 3)
    else:
        spread = f"{fixed(known[0], 3)} (against the rival most like it) to {fixed(known[-1], 3)}"
    return f"{blocks} cannot show less than {spread}."


def _caption(verdict: Verdict) -> str:
    friedman_p = verdict.ranking.friedman_p
    tested = "" if friedman_p is None else f" Friedman's test of all methods: p {p_text(friedman_p, 'is ')}."
    return " ".join(
        (
            f"Question: {verdict.question.words}?",
            f"Blocks: {verdict.families} families x {verdict.seeds} seeds; ranks over the "
            f"{verdict.ranking.num_blocks} blocks that every method has.{tested}",
            f"Difference: {verdict.title} minus the row's method, mean over blocks, with its 95 % interval "
            "by Student's t. Effect: rank-biserial, from -1 (worse in every block) to 1.",
            f"p: exact signed-rank test, Holm's correction for {len(verdict.against)} rivals; below {ALPHA} "
            "the verdict is better or worse.",
            f"Shows from: the least difference that would be shown in {POWER:.0%} of such arenas, as "
            "differences spread here. References are neither ranked nor tested.",
        )
    )


def _standing_cells(verdict: Verdict, method: str, standing: Standing) -> list[Cell]:
    rank = verdict.ranking.ranks.get(method)
    cells = [
        Cell(NONE) if rank is None else Cell(fixed(rank, 1), rank),
        Cell(fixed(standing.score, 3), standing.score, bold=method == verdict.method),
        Cell(fixed(standing.also, 3), standing.also),
    ]
    if verdict.question is CLUSTERING:
        return cells
    sent = standing.megabytes
    return [*cells, Cell("never") if isinf(sent) else Cell(f"{sent:.3g}", sent)]


def _against_cells(against: Against | None) -> list[Cell]:
    if against is None:
        return [Cell(NONE)] * 6
    low, high = against.interval
    return [
        Cell(_signed(against.difference), against.difference),
        Cell(NONE if isinf(low) else f"{_signed(low)} to {_signed(high)}"),
        Cell(fixed(against.effect, 2), against.effect),
        Cell(p_text(against.p), against.p, bold=against.p < ALPHA),
        Cell(NONE) if isinf(against.least) else Cell(fixed(against.least, 3), against.least),
        Cell(against.verdict, bold=against.p < ALPHA),
    ]


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{fixed(value, 3)}"


def _named(verdict: Verdict, rivals: Sequence[Against]) -> str:
    names = [verdict.standings[each.rival].title for each in rivals]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f" ({', '.join(names[:NAMED])}{more})"
