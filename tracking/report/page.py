"""A page before it is HTML and files: sections of tables and of figures yet to be drawn."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from fedgrid.tracking.tables.table import Table


@dataclass(frozen=True)
class Plate:
    """A figure and what is said of it."""

    name: str
    """Its files' name, as `segments-mnist`."""
    title: str
    caption: str
    """What is drawn, and how to read it, in a sentence or two."""
    draw: Callable[[], Figure]
    """May be called in another process: a `functools.partial` of a function of `tracking.figures`."""


@dataclass(frozen=True)
class Choice:
    """The same in several conventions, of which HTML shows one at a time: label and item."""

    options: tuple[tuple[str, Table | Plate], ...]


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    name: str
    """Its anchor, as `mnist`."""
    title: str
    text: str = ""
    """A paragraph or two (a blank line between), plain text."""
    items: tuple[Table | Plate | Choice, ...] = ()
    sections: tuple["Section", ...] = ()


@dataclass(frozen=True)
class Page:
    """A report."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Short label and value, for the head of the page: `runs`, `280 of 280`."""
    sections: tuple[Section, ...]

    def tables(self) -> Iterator[Table]:
        """Yield all tables in their order."""
        return (item for item in _items(self.sections) if isinstance(item, Table))

    def plates(self) -> Iterator[Plate]:
        """Yield all figures in their order."""
        return (item for item in _items(self.sections) if isinstance(item, Plate))


def _items(sections: tuple[Section, ...]) -> Iterator[Table | Plate]:
    for section in sections:
        for item in section.items:
            yield from (option for _, option in item.options) if isinstance(item, Choice) else (item,)
        yield from _items(section.sections)
