"""Sections of one combination of a grid's further axes: names and titles that say which one it is."""

from collections.abc import Sequence
from dataclasses import replace

from fedgrid.tracking.report.page import Choice, Plate, Section
from fedgrid.tracking.scoring.axes import setting_words
from fedgrid.tracking.scoring.run import AxisValue
from fedgrid.tracking.scoring.study import plain
from fedgrid.tracking.tables.table import Table


def of_setting(section: Section, setting: tuple[AxisValue, ...]) -> Section:
    """Return a section with the setting in all names and titles, so that each is there once in a report."""
    return worded(section, setting_words(setting))


def worded(section: Section, words: Sequence[str]) -> Section:
    """Return a section with words in all names and titles."""
    if not words:
        return section
    name, title = plain("-".join(["", *(word.replace(" ", "-") for word in words)])), ", ".join(["", *words])

    def named(item: Table | Plate) -> Table | Plate:
        return replace(item, name=f"{item.name}{name}", title=f"{item.title}{title}")

    def inner(item: Table | Plate | Choice) -> Table | Plate | Choice:
        if isinstance(item, Choice):
            return Choice(tuple((label, named(option)) for label, option in item.options))
        return named(item)

    return replace(
        section,
        name=f"{section.name}{name}",
        title=f"{section.title}{title}",
        items=tuple(map(inner, section.items)),
        sections=tuple(worded(part, words) for part in section.sections),
    )
