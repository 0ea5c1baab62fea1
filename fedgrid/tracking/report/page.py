"""The content of a report, independent of the format: sections with tables and figures to draw."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from fedgrid.tracking.figures.style import OwnStyle
from fedgrid.tracking.scoring.study import replace_special_characters
from fedgrid.tracking.tables.table import Table

SVG_SUFFIX = "svg"
"""Suffix of the file that each figure has, and that the page shows."""
FORMATS = (SVG_SUFFIX, "png", "pdf")
"""Suffixes of all files that a figure may have."""


@dataclass(frozen=True)
class DrawingOptions:
    """Options of drawing: which figures of a page are drawn, in which formats and styles."""

    all_figures: bool = False
    """Whether all are drawn; else only those that `Page.list_figures` yields without `all_figures`."""
    formats: tuple[str, ...] = (SVG_SUFFIX,)
    """Formats of each figure, of `FORMATS`."""
    styles: tuple[OwnStyle, ...] = ()
    """Styles of the user's, as of `figures.style_context`."""


DEFAULT_DRAWING = DrawingOptions()


@dataclass(frozen=True)
class CaptionedFigure:
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

    options: tuple[tuple[str, Table | CaptionedFigure], ...]
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
    items: tuple[Table | CaptionedFigure | Choice, ...] = ()
    sections: tuple["PageSection", ...] = ()


@dataclass(frozen=True)
class Page:
    """A report: its title, facts for its head, and sections."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """Label and value for the head of the page: `runs`, `280 of 280`."""
    sections: tuple[PageSection, ...]

    def list_tables(self) -> Iterator[Table]:
        """Yield all tables in the order of the page."""
        return (item for item in _list_items(self.sections) if isinstance(item, Table))

    def list_figures(self, *, all_figures: bool = True) -> Iterator[CaptionedFigure]:
        """Yield all figures in the order of the page; without `all_figures` the first ones of each choice."""
        return (
            item
            for item in _list_items(self.sections, all_figures=all_figures)
            if isinstance(item, CaptionedFigure)
        )


def _list_items(
    sections: tuple[PageSection, ...], *, all_figures: bool = True
) -> Iterator[Table | CaptionedFigure]:
    """Yield the tables and figures of sections in order; without `all_figures` the first ones of each
    choice.
    """
    for section in sections:
        for item in section.items:
            options = item.options if isinstance(item, Choice) else (("", item),)
            # A page shows one option at a time, and drawing the others would take most of a report's time.
            count = len(options) if all_figures or not isinstance(item, Choice) else item.num_drawn
            yield from (option for _, option in options[:count])
        yield from _list_items(section.sections, all_figures=all_figures)


def add_suffix(section: PageSection, words: Sequence[str]) -> PageSection:
    """Add words, as of a setting, to all names and titles of a section: each is in a report once."""
    if not words:
        return section
    name, title = (
        replace_special_characters("-".join(["", *(word.replace(" ", "-") for word in words)])),
        ", ".join(["", *words]),
    )

    def rename_item(item: Table | CaptionedFigure) -> Table | CaptionedFigure:
        """Add the words to the name and title of a table or figure."""
        return replace(item, name=f"{item.name}{name}", title=f"{item.title}{title}")

    def rename_options(item: Table | CaptionedFigure | Choice) -> Table | CaptionedFigure | Choice:
        """Add the words to an item, or to all options of a choice."""
        if isinstance(item, Choice):
            return replace(
                item, options=tuple((label, rename_item(option)) for label, option in item.options)
            )
        return rename_item(item)

    return replace(
        section,
        name=f"{section.name}{name}",
        title=f"{section.title}{title}",
        items=tuple(map(rename_options, section.items)),
        sections=tuple(add_suffix(part, words) for part in section.sections),
    )
