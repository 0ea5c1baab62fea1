"""The results of all methods of an arena as sections with tables and figures.

Nothing is compared across protocols but harm, whose baseline is fine-tuned.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isnan
from operator import attrgetter

from fedgrid.tracking.report.page import CaptionedFigure, PageSection
from fedgrid.tracking.report.ranks import build_rank_diagram
from fedgrid.tracking.tables.formats import to_latex, to_markdown
from fedgrid.tracking.tables.table import Table, format_fixed, format_signed
from fedgrid.tracking.verdicts import tables
from fedgrid.tracking.verdicts.families import FamilyResult, summarise_families
from fedgrid.tracking.verdicts.field import (
    BNC,
    CLUSTERING,
    SERVING,
    SOLO,
    Field,
    Question,
    build_field,
    label_blocks,
)
from fedgrid.tracking.verdicts.figures import (
    ILL,
    MIDDLE,
    UNKNOWN,
    WELL,
    FailureMap,
    Point,
    draw_pareto,
    draw_tiles,
)
from fedgrid.tracking.verdicts.outcomes import KNOWLEDGE_LEVELS, PROTOCOLS, Outcome, Protocol
from fedgrid.tracking.verdicts.verdict import CLASSES, OWN_METHOD

DATASETS = "data-sets"
"""Name of the section with the ranks without each data set."""
GROUPS = {"right in all seeds": WELL, "in some": MIDDLE, "in none": ILL, "no result": UNKNOWN}
ACCURACY = {
    f"at least {BNC} and {SOLO}": WELL,
    f"below {SOLO}": MIDDLE,
    f"below {BNC}": ILL,
    "one of these has no result": UNKNOWN,
}


def format_latex(verdicts: Iterable[Table], sections: Sequence[PageSection]) -> str:
    """Format the tables of verdicts and of sections for a document that uses booktabs."""
    section_tables = (item for section in sections for item in section.items if isinstance(item, Table))
    return "\n".join(map(to_latex, (*verdicts, *section_tables)))


def format_section(section: PageSection, pictures: str) -> str:
    """Format a section in Markdown: its tables and figures."""
    items = "\n".join(
        to_markdown(item)
        if isinstance(item, Table)
        else f"![{item.title}]({pictures.format(item.name)})\n\n**{item.title}.** {item.caption}\n"
        for item in section.items
        if isinstance(item, Table | CaptionedFigure)
    )
    return f"## {section.title}\n\n{items}"


def list_figures(sections: Sequence[PageSection]) -> Iterator[CaptionedFigure]:
    """List the figures of sections, in their order."""
    return (item for section in sections for item in section.items if isinstance(item, CaptionedFigure))


def build_sections(
    outcomes: Iterable[Outcome], budget: int, subjects: Sequence[str] = (OWN_METHOD,)
) -> tuple[PageSection, ...]:
    """Build the sections of these outcomes; a question that two methods of a class do not share has none.

    Args:
        outcomes: all results of the arena.
        budget: number of fine-tuning steps of the protocol `fine-tuned`.
        subjects: methods whose planned comparisons are tested (default: fedgrid's own).
    """
    outcomes = tuple(outcomes)
    clustering = _build_fields(outcomes, CLUSTERING, PROTOCOLS[0])
    serving = {
        tables.describe_protocol(protocol, budget): fields
        for protocol in PROTOCOLS
        if (fields := _build_fields(outcomes, SERVING, protocol))
    }
    sections = []
    if clustering:
        sections.append(
            _build_question_section(
                clustering, "clustering", "Clustering: are the hidden groups found?", subjects
            )
        )
    for words, fields in serving.items():
        # The columns are explained once, in the first section on serving.
        name, explained = f"serving-{fields[0].protocol}", words != next(iter(serving))
        sections.append(
            _build_question_section(fields, name, f"Serving: {words}", subjects, explained=explained)
        )
    if serving:
        sections.append(_build_cost_section(serving))
    headings = {"clustering": clustering, **serving}
    left_out = tables.build_ranks_without_table(
        {words: fields[0] for words, fields in headings.items() if fields}
    )
    if left_out:
        sections.append(PageSection(DATASETS, "Data set by data set", items=(left_out,)))
    return tuple(sections)


def _build_fields(outcomes: Sequence[Outcome], question: Question, protocol: Protocol) -> list[Field]:
    """Build a field for each class with two competitors, first that of methods without any hint."""
    return [
        field
        for knowledge in KNOWLEDGE_LEVELS
        if (field := build_field(outcomes, question, protocol, knowledge))
    ]


def _build_question_section(
    fields: Sequence[Field], name: str, title: str, subjects: Sequence[str], *, explained: bool = False
) -> PageSection:
    """Build a section: the table of all methods, the ranks of the first class, the map of failures.

    Args:
        fields: of the classes; the first one gives ranks and the map's order.
        name: of the section and its files.
        title: of the section.
        subjects: methods whose planned comparisons are tested.
        explained: another section has explained the columns (default False).
    """
    first = fields[0]
    table = tables.build_methods_table(fields, name, "All methods", subjects, explained=explained)
    ranks = replace(
        # No bars: only planned comparisons are tested.
        build_rank_diagram(name, replace(first.comparison, cliques=())),
        title=f"Mean ranks by {'ARI' if first.question is CLUSTERING else 'accuracy'}",
        caption=f"Methods {CLASSES[first.knowledge]}; a description, not a test.",
    )
    words, legend = (
        ("Mean ARI; without groups, runs with several clusters", GROUPS)
        if first.question is CLUSTERING
        else (f"Percentage points above {BNC}, mean over seeds", ACCURACY)
    )
    failures = CaptionedFigure(
        f"failures-{name}",
        "Map of failures",
        f"{words}. Rows by mean rank, those without one last.",
        partial(draw_tiles, _build_map(fields), legend),
    )
    return PageSection(name, title, items=(table, ranks, failures))


def _build_map(fields: Sequence[Field]) -> FailureMap:
    """Build the map of a question; for clustering, families with groups come first."""
    first = fields[0]
    ranked = {method: field for field in fields for method in field.ranks}
    # A method of another class is measured against its own field, so that its baselines are those it is
    # judged by.
    field_by_method = {**ranked, **{method: first for method in first.outcomes if method not in ranked}}
    families_by_method = {
        method: summarise_families(field, method) for method, field in field_by_method.items()
    }
    blocks = {block: place for places in families_by_method.values() for block, place in places.items()}
    ordered = sorted(blocks, key=lambda block: (not blocks[block].has_groups, block))
    labels = label_blocks(ordered)
    cell = _build_groups_cell if first.question is CLUSTERING else _build_accuracy_cell
    return {
        method: {labels[block]: cell(places[block]) for block in ordered if block in places}
        for method, places in families_by_method.items()
    }


def _build_groups_cell(place: FamilyResult) -> tuple[str, str]:
    """Build the colour and text of a cell by the groups that were found."""
    colour = WELL if place.exactly_right == place.seeds else MIDDLE if place.exactly_right else ILL
    if place.has_groups:
        return colour, format_fixed(place.score, 2)
    return colour, str(place.seeds - place.exactly_right or "")


def _build_accuracy_cell(place: FamilyResult) -> tuple[str, str]:
    """Build the colour and text of a cell by the accuracy against both baselines."""
    above, above_solo = place.above_baseline[BNC], place.above_baseline[SOLO]
    if isnan(above) or isnan(above_solo):
        return UNKNOWN, "" if isnan(above) else format_signed(100 * above, 0)
    colour = ILL if above < 0 else MIDDLE if above_solo < 0 else WELL
    return colour, format_signed(100 * above, 0)


def _build_cost_section(serving: Mapping[str, Sequence[Field]]) -> PageSection:
    """Build the section on cost: the table within equal budgets, and the figure over bytes."""
    sent = attrgetter("megabytes")
    points = {
        words: {
            method: Point(
                field.average_method(method, attrgetter(field.question.score)),
                field.average_method(method, sent),
                field.is_reference(method),
            )
            for method in sorted(field.outcomes)
        }
        for words, (field, *_) in serving.items()
    }
    plate = CaptionedFigure(
        "pareto",
        "Accuracy against bytes sent",
        "Means over families. The line joins the methods than which no other has as much accuracy for as few "
        "bytes. A dotted line is a reference that sends nothing.",
        partial(draw_pareto, points),
    )
    return PageSection("cost", "Cost", items=(tables.build_cost_table(serving), plate))
