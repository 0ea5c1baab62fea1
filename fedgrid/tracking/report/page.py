"""The content of a report, independent of the format: sections with tables and figures to draw."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from fedgrid.tracking.figures.style import OwnStyle
from fedgrid.tracking.scoring.study import plain
from fedgrid.tracking.tables.table import Table

SVG = "svg"
"""Suffix of the file that each figure has, and that the page shows."""
FORMATS = (SVG, "png", "pdf")
"""Suffixes of all files that a figure may have."""


@dataclass(frozen=True)
class Drawing:
    """Options of drawing: which figures of a page are drawn, in which formats and styles."""

    every: bool = False
    """Whether all are drawn; else only those that `Page.plates` yields without `every`."""
    formats: tuple[str, ...] = (SVG,)
    """Formats of each figure, of `FORMATS`."""
    styles: tuple[OwnStyle, ...] = ()
    """Styles of the user's, as of `figures.style_context`."""


USUAL = Drawing()


@dataclass(frozen=True)
class Plate:
    """A figure with its title and caption."""

    name: str
    """Name of its files, as `segments-mnist`."""
    title: str
    caption: str
    """What the figure shows and how to read it, in a sentence or two."""
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Choice:
    """Alternatives, as (label, item), of which the HTML page shows one at a time."""

    options: tuple[tuple[str, Table | Plate], ...]
    num_drawn: int = 1
    """Number of options whose figures are drawn in any case; later ones only with all figures."""


@dataclass(frozen=True)
class PageSection:
    """A part of a page: text, tables and figures, then sections below it."""

    name: str
    """Its anchor, as `mnist`."""
    title: str
    text: str = ""
    """Plain text; a blank line separates paragraphs."""
    items: tuple[Table | Plate | Choice, ...] = ()
    sections: tuple["PageSection", ...] = ()


@dataclass(frozen=True)
class Page:
    """A report: its title, facts for its head, and sections."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Label and value for the head of the page: `runs`, `280 of 280`."""
    sections: tuple[PageSection, ...]

    def tables(self) -> Iterator[Table]:
        """Yield all tables in the order of the page."""
        return (item for item in _items(self.sections) if isinstance(item, Table))

    def plates(self, *, every: bool = True) -> Iterator[Plate]:
        """Yield all figures in the order of the page; without `every` the first ones of each choice."""
        return (item for item in _items(self.sections, every=every) if isinstance(item, Plate))


def _items(sections: tuple[PageSection, ...], *, every: bool = True) -> Iterator[Table | Plate]:
    """Yield the tables and figures of sections in order; without `every` the first ones of each choice."""
    for section in sections:
        for item in section.items:
            options = item.options if isinstance(item, Choice) else (("", item),)
            # A page shows one option at a time, and drawing the others would take most of a report's time.
            count = len(options) if every or not isinstance(item, Choice) else item.num_drawn
            yield from (option for _, option in options[:count])
        yield from _items(section.sections, every=every)


def add_words(section: PageSection, words: Sequence[str]) -> PageSection:
    """Add words, as of a setting, to all names and titles of a section: each is in a report once."""
    if not words:
        return section
    name, title = plain("-".join(["", *(word.replace(" ", "-") for word in words)])), ", ".join(["", *words])

    def named(item: Table | Plate) -> Table | Plate:
        """Add the words to the name and title of a table or figure."""
        return replace(item, name=f"{item.name}{name}", title=f"{item.title}{title}")

    def inner(item: Table | Plate | Choice) -> Table | Plate | Choice:
        """Add the words to an item, or to all options of a choice."""
        if isinstance(item, Choice):
            return replace(item, options=tuple((label, named(option)) for label, option in item.options))
        return named(item)

    return replace(
        section,
        name=f"{section.name}{name}",
        title=f"{section.title}{title}",
        items=tuple(map(inner, section.items)),
        sections=tuple(add_words(part, words) for part in section.sections),
    )
