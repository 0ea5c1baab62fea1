"""Tables of an arena, the sentence on a verdict, and a verdict for programs."""

from collections.abc import Callable, Iterable, Sequence
from math import isinf, isnan
from typing import Any

from fedgrid.tracking.names import names_line
from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.tables.significance import p_text
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, bold_columns, fixed
from fedgrid.tracking.verdicts.field import BNC, CLUSTERING, TARGET, Field, InFamily
from fedgrid.tracking.verdicts.outcomes import Outcome, Protocol
from fedgrid.tracking.verdicts.verdict import POWER, Against, Verdict

NAMED = 6
"""Rivals that a sentence names."""
BELOW_BNC = "b"
BLOCKS = "Means over {} blocks ({}; a block is a family and a seed)."


def words_of(protocol: Protocol, budget: int) -> str:
    """Return a protocol in words."""
    return "models as served" if protocol == "served" else f"{budget} steps of fine-tuning for all"


def names_in(outcomes: Iterable[Outcome]) -> str:
    """Return a sentence on what papers call the methods; empty if they have no other names."""
    return names_line({outcome.method: outcome.title for outcome in outcomes})


def table_of(verdict: Verdict, budget: int) -> Table:
    """Return the verdict as a table: a row a method, and what is shown against it."""
    field = verdict.field
    against = {comparison.rival: comparison for comparison in verdict.against}
    shown = ("difference", "95 %", "effect", "p", "shows from", "verdict")
    return Table(
        "-".join(("verdict", field.question.name, field.settings, field.protocol)),
        f"{verdict.method}, {field.question.name}: {field.settings} settings{_within(field, budget)}",
        _caption(verdict),
        (*_own_columns(field), *map(Column, shown)),
        tuple(
            Row(
                method,
                (*_own_cells(field, method, verdict.method), *_against_cells(against.get(method))),
                is_reference=standing.is_reference,
            )
            for method, standing in field.standings.items()
        ),
        corner="method",
    )


def sentence(verdict: Verdict, budget: int) -> str:
    """Return the verdict in words, with what it could not have shown."""
    kinds = {"better": "better than", "worse": "worse than", "not shown": "undecided with"}
    said = []
    for kind, words in kinds.items():
        if rivals := [against.rival for against in verdict.against if against.verdict == kind]:
            names = ", ".join(rivals[:NAMED])
            more = f" and {len(rivals) - NAMED} more" if len(rivals) > NAMED else ""
            said.append(f"{words} {len(rivals)} of {len(verdict.against)} rivals ({names}{more})")
    field = verdict.field
    how = f"{field.question.name} ({field.settings}{_within(field, budget)})"
    return f"{how}: {verdict.method} is {', '.join(said)}. {_power(verdict)}"


def _within(field: Field, budget: int) -> str:
    """Return the protocol of a field, of serving, after a comma."""
    return "" if field.question is CLUSTERING else f", {words_of(field.protocol, budget)}"


def as_dict(verdict: Verdict, budget: int) -> dict[str, Any]:
    """Return the verdict for programs; None stands for a number that there is none of."""
    return {
        "question": verdict.field.question.name,
        "settings": verdict.field.settings,
        "protocol": verdict.field.protocol,
        "method": verdict.method,
        "text": sentence(verdict, budget),
        "rivals": [
            {
                "method": against.rival,
                "blocks": against.num_blocks,
                "difference": against.difference,
                "interval": None if isinf(against.interval[0]) else against.interval,
                "effect": against.effect,
                "p": against.p,
                "shows_from": None if isinf(against.least) else against.least,
                "verdict": against.verdict,
            }
            for against in verdict.against
        ],
    }


def _power(verdict: Verdict) -> str:
    """Return in words the differences that these blocks cannot show."""
    differences = sorted(against.least for against in verdict.against)
    least = [fixed(value, 3) for value in differences if not isinf(value)]
    if not least:
        rivals = f"{len(verdict.against)} rivals"
        return f"{verdict.field.where} cannot show any difference from {rivals}: take more --seeds."
    spread = least[-1]
    if least[0] != spread:
        spread = f"{least[0]} (against the rival most like it) to {spread}"
    return f"{verdict.field.where} cannot show less than {spread}."


def overall(field: Field, name: str, title: str) -> Table:
    """Return the table of a question: a row a method, by mean rank; references without a rank."""
    is_clustering = field.question is CLUSTERING
    rows = [
        Row(
            method,
            (*_own_cells(field, method), *_test_cells(field, method)),
            is_reference=standing.is_reference,
        )
        for method, standing in field.standings.items()
    ]
    shown = ("better than", "worse than", *([] if is_clustering else ["against fedavg"]))
    highest = [False, True, *([None] if is_clustering else [True, None, None]), *(None for _ in shown)]
    return Table(
        name,
        title,
        f"{BLOCKS.format(field.comparison.num_scenarios, field.where)} Better than, worse than: how many "
        "other methods it is shown to be better or worse than. References have no rank."
        + ("" if is_clustering else f" {_COST}"),
        (*_own_columns(field), *map(Column, shown)),
        bold_columns(rows, highest),
        corner="method",
    )


def groups_by_family(field: Field) -> Table:
    """Return ARI, and in how many seeds the partition is right, by family."""
    caption = (
        "Mean ARI, and in how many seeds the clusters are the hidden groups; iid: clients do not differ, and "
        "one cluster is right."
    )

    def cell(place: InFamily) -> Cell:
        right = f"{place.right}/{place.seeds}"
        return Cell(right) if isnan(place.ari) else Cell(f"{fixed(place.ari, 2)} ({right})", place.ari)

    return _by_family(field, "groups-by-family", "Groups found, by family", caption, cell)


def regret(field: Field, name: str, title: str) -> Table:
    """Return the oracle's accuracy less the method's, by family."""
    caption = (
        "The oracle's accuracy less the method's in percentage points, mean over seeds; negative: the method "
        "is better. Where clients differ without groups it is no upper bound."
    )

    def cell(place: InFamily) -> Cell:
        notes = (BELOW_BNC,) if place.gain < 0 else ()
        points = 100 * place.regret
        return Cell(NONE) if isnan(points) else Cell(fixed(points, 1), points, notes=notes)

    return _by_family(field, name, title, caption, cell)


def compare_settings(
    columns: Sequence[tuple[str, Field | None, Field | None]], methods: Sequence[str]
) -> Table:
    """Return each method's score with default and with tuned settings.

    `columns` are heading, default and tuned, of each question and protocol.
    """

    def cell(field: Field | None, method: str) -> Cell:
        if field is None or method not in field.standings:
            return Cell(NONE)
        score = field.standings[method].score
        return Cell(fixed(score, 3), score)

    return Table(
        "defaults",
        "Default and tuned settings",
        "Means over blocks, as in the tables above.",
        tuple(Column(settings, heading) for heading, *_ in columns for settings in ("default", "tuned")),
        tuple(
            Row(method, tuple(cell(field, method) for _, *pair in columns for field in pair))
            for method in methods
        ),
        corner="method",
    )


def _by_family(field: Field, name: str, title: str, caption: str, cell: Callable[[InFamily], Cell]) -> Table:
    """Return a table with a row a method and a column a family."""
    families = field.names_of_families
    rows = tuple(
        Row(
            method,
            tuple(cell(of_method[family]) if family in of_method else Cell(NONE) for family in families),
            is_reference=standing.is_reference,
        )
        for method, standing in field.standings.items()
        for of_method in [field.families[method]]
    )
    is_noted = any(cell.notes for row in rows for cell in row.cells)
    notes = {BELOW_BNC: "worse than fedavg too, mean over seeds"} if is_noted else {}
    return Table(name, title, caption, tuple(map(Column, families)), rows, corner="method", notes=notes)


_COST = (
    f"MB: sent by all clients and the server, mean; until {TARGET:.0%} of the accuracy of the block's best "
    "competitor, median."
)


def _own_columns(field: Field) -> tuple[Column, ...]:
    if field.question is CLUSTERING:
        return tuple(map(Column, ("rank", "ARI", "exactly right")))
    return tuple(map(Column, ("rank", "accuracy", "worst tenth", "MB", f"MB to {TARGET:.0%}")))


def _own_cells(field: Field, method: str, bold: str = "") -> list[Cell]:
    standing, rank = field.standings[method], field.ranks.get(method)
    cells = [
        Cell(NONE) if rank is None else Cell(fixed(rank, 1), rank),
        Cell(fixed(standing.score, 3), standing.score, bold=method == bold),
    ]
    if field.question is CLUSTERING:
        right = round(standing.also * standing.num_blocks)
        return [*cells, Cell(f"{right}/{standing.num_blocks}", standing.also)]
    sent = (standing.megabytes, standing.megabytes_to_target)
    return [
        *cells,
        Cell(fixed(standing.also, 3), standing.also),
        *(Cell("never") if isinf(megabytes) else Cell(f"{megabytes:.3g}", megabytes) for megabytes in sent),
    ]


def _test_cells(field: Field, method: str) -> list[Cell]:
    """Return how many methods one is better and worse than and, of serving, how it stands against FedAvg."""
    better, worse = field.better.get(method), field.worse(method)
    counts = [Cell(NONE)] * 2 if better is None else [Cell(str(len(methods))) for methods in (better, worse)]
    if field.question is CLUSTERING:
        return counts
    words = NONE
    if better is not None and method != BNC and BNC in field.better:
        words = "better" if BNC in better else "worse" if BNC in worse else "not shown"
    return [*counts, Cell(words)]


def _caption(verdict: Verdict) -> str:
    field = verdict.field
    friedman_p = field.comparison.friedman_p
    tested = "" if friedman_p is None else f" Friedman's test of all methods: p {p_text(friedman_p, 'is ')}."
    return " ".join(
        (
            f"Question: {field.question.words}?",
            f"{BLOCKS.format(field.comparison.num_scenarios, field.where)}{tested}",
            f"Difference: {verdict.method} minus the row's method, mean over blocks, with its 95 % interval "
            "by Student's t. Effect: rank-biserial, from -1 (worse in every block) to 1.",
            f"p: exact signed-rank test, Holm's correction for {len(verdict.against)} rivals; below {ALPHA} "
            "the verdict is better or worse.",
            f"Shows from: the least difference that would be shown in {POWER:.0%} of such arenas, as "
            "differences spread here. References are neither ranked nor tested.",
        )
    )


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
