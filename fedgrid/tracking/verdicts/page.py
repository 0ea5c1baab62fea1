"""The page of an arena: verdicts, and the results of all methods as sections with tables and figures.

Nothing is compared across protocols.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isnan

from fedgrid.tracking.report.page import PageSection, Plate
from fedgrid.tracking.report.ranks import diagram
from fedgrid.tracking.tables.formats import to_markdown
from fedgrid.tracking.tables.table import Table, fixed
from fedgrid.tracking.verdicts import tables
from fedgrid.tracking.verdicts.field import CLUSTERING, ORACLE, SERVING, Field, InFamily, field_of
from fedgrid.tracking.verdicts.figures import ILL, MIDDLE, WELL, Map, pareto, tiles
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, Outcome
from fedgrid.tracking.verdicts.verdict import Verdict

COLOURS = {
    "groups right in all seeds; at least oracle's accuracy": WELL,
    "right in some seeds; below oracle": MIDDLE,
    "right in no seed; below fedavg": ILL,
}


def verdict_page(
    verdicts: Sequence[Verdict],
    budget: int,
    notes: Sequence[str],
    sections: Sequence[PageSection],
    pictures: str,
) -> str:
    """Return all verdicts in Markdown, sentences then tables, and below them the results of all methods.

    `pictures` is the place of a figure, with its name as `{}`.
    """
    sentences = "\n".join(f"- {tables.sentence(verdict, budget)}" for verdict in verdicts) or "None."
    shown = "\n".join(to_markdown(tables.table_of(verdict, budget)) for verdict in verdicts)
    remarks = "".join(f"- {note}\n" for note in notes)
    below = "\n".join(section_text(section, pictures) for section in sections)
    return f"# Verdict\n\n{sentences}\n\n{remarks}\n{shown}" + (f"\n{below}" if below else "")


def section_text(section: PageSection, pictures: str) -> str:
    """Return a section in Markdown: its tables and figures."""
    items = "\n".join(
        to_markdown(item)
        if isinstance(item, Table)
        else f"![{item.title}]({pictures.format(item.name)})\n\n**{item.title}.** {item.caption}\n"
        for item in section.items
        if isinstance(item, Table | Plate)
    )
    return f"## {section.title}\n\n{items}"


def plates_of(sections: Sequence[PageSection]) -> Iterator[Plate]:
    """Yield the figures of sections, in their order."""
    return (item for section in sections for item in section.items if isinstance(item, Plate))


def results(outcomes: Iterable[Outcome], budget: int) -> tuple[PageSection, ...]:
    """Return the sections of one data set's outcomes; a question that two methods do not share has none.

    `budget` is the number of fine-tuning steps of the protocol `fine-tuned`.
    """
    outcomes = tuple(outcomes)
    clustering = field_of(outcomes, CLUSTERING, "tuned", PROTOCOLS[0])
    serving = {
        tables.words_of(protocol, budget): field
        for protocol in PROTOCOLS
        if (field := field_of(outcomes, SERVING, "tuned", protocol))
    }
    sections = []
    if clustering:
        title = "Clustering: are the hidden groups found?"
        groups = tables.groups_by_family(clustering)
        sections.append(_question(clustering, "clustering", title, "Clustering, tuned settings", groups))
    for words, field in serving.items():
        name, title = f"serving-{field.protocol}", f"Serving, tuned settings, {words}"
        sections.append(_question(field, name, f"Serving: {words}", title))
    if serving:
        sections += [_cost(serving), _families(serving, clustering)]
        sections.append(_defaults(outcomes, clustering, serving))
    return tuple(sections)


def _question(field: Field, name: str, title: str, title_of_table: str, *more: Table) -> PageSection:
    plate = diagram(name, field.comparison)
    ranks = replace(
        plate,
        title=f"Mean ranks by {'ARI' if field.question is CLUSTERING else 'accuracy'}",
        caption=f"{plate.caption} A scenario is here a family and a seed.",
    )
    return PageSection(name, title, items=(tables.overall(field, name, title_of_table), ranks, *more))


def _cost(serving: Mapping[str, Field]) -> PageSection:
    points = {words: dict(sorted(field.standings.items())) for words, field in serving.items()}
    plate = Plate(
        "pareto",
        "Accuracy against bytes sent",
        "Means over blocks, tuned settings. The line joins the methods than which no other has as much "
        "accuracy for as few bytes. A dotted line is a reference that sends nothing.",
        partial(pareto, points),
    )
    return PageSection("cost", "Accuracy against bytes", items=(plate,))


def _families(serving: Mapping[str, Field], clustering: Field | None) -> PageSection:
    order = next(iter(serving.values()))
    fields = {**({"groups found (ARI)": clustering} if clustering else {}), **serving}
    maps = {title: _map(field, order) for title, field in fields.items()}
    failures = Plate(
        "failures",
        "Map of failures",
        "Rows by mean rank, models as served. Numbers: at the left mean ARI; else in how many seeds clients "
        "are served worse than by fedavg. Grey: nothing to find, or no clusters formed.",
        partial(tiles, maps, COLOURS),
    )
    regrets = [
        tables.regret(field, f"regret-{field.protocol}", f"Regret against oracle, {words}")
        for words, field in serving.items()
    ]
    return PageSection("families", "Family by family", items=(failures, *regrets))


def _map(field: Field, order: Field) -> Map:
    """Return the map of a field, a row for each method of `order`; the oracle cannot be below itself."""

    def cell(place: InFamily) -> tuple[str, str]:
        if field.question is CLUSTERING:
            colour = WELL if place.right == place.seeds else MIDDLE if place.right else ILL
            return colour, "" if isnan(place.ari) else fixed(place.ari, 2)
        colour = ILL if place.gain < 0 else MIDDLE if place.regret > 0 else WELL
        return colour, str(place.below_bnc or "")

    return {
        method: {
            family: cell(place)
            for family in field.names_of_families
            if method in field.standings and (place := field.families[method].get(family))
        }
        for method in order.standings
        if method != ORACLE
    }


def _defaults(
    outcomes: Sequence[Outcome], clustering: Field | None, serving: Mapping[str, Field]
) -> PageSection:
    fields = {"ARI": clustering} if clustering else {}
    fields |= {f"accuracy, {words}": field for words, field in serving.items()}
    columns = [
        (heading, field_of(outcomes, field.question, "default", field.protocol), field)
        for heading, field in fields.items()
    ]
    first = next(iter(serving.values()))
    table = tables.compare_settings(columns, list(first.ranks))
    return PageSection("defaults", "What tuning changes", items=(table,))
