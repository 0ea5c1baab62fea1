"""Verdicts and results as a page in Markdown."""

from collections.abc import Iterator, Sequence

from fedgrid.tracking.report.page import Plate, Section
from fedgrid.tracking.tables.formats import to_markdown
from fedgrid.tracking.tables.table import Table
from fedgrid.tracking.verdicts.tables import sentence, table_of
from fedgrid.tracking.verdicts.verdict import Verdict


def verdict_page(
    verdicts: Sequence[Verdict], budget: int, notes: Sequence[str], sections: Sequence[Section], pictures: str
) -> str:
    """Return all verdicts, sentences then tables, and below them the results of all methods.

    `pictures` is the place of a figure, with its name as `{}`.
    """
    sentences = "\n".join(f"- {sentence(each, budget)}" for each in verdicts) or "None."
    tables = "\n".join(to_markdown(table_of(each, budget)) for each in verdicts)
    remarks = "".join(f"- {note}\n" for note in notes)
    below = "\n".join(section_text(each, pictures) for each in sections)
    return f"# Verdict\n\n{sentences}\n\n{remarks}\n{tables}" + (f"\n{below}" if below else "")


def section_text(section: Section, pictures: str) -> str:
    """Return a section: its sentences, tables and figures."""
    items = "\n".join(
        to_markdown(item) if isinstance(item, Table) else _picture(item, pictures)
        for item in section.items
        if isinstance(item, Table | Plate)
    )
    return f"## {section.title}\n\n{section.text}\n\n{items}"


def plates_of(sections: Sequence[Section]) -> Iterator[Plate]:
    """Yield the figures of sections, in their order."""
    return (item for section in sections for item in section.items if isinstance(item, Plate))


def _picture(plate: Plate, pictures: str) -> str:
    return f"![{plate.title}]({pictures.format(plate.name)})\n\n**{plate.title}.** {plate.caption}\n"
