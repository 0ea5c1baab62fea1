"""Text on the terminal is shown as it is: names are not markup, and no character controls the terminal.

Names, titles, errors and paths come from plugins, libraries and other users.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fedgrid.redaction import printable, redacted


class PlainConsole(Console):
    """A console to which a string is text: without markup, emoji codes and control characters.

    All consoles of this program are of this class. Colours come from `Text` and from styles.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as text, in a table's cell too."""
        return super().render_str(printable(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is shown; only rich's own control codes, which move a live table, stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def print_plain(console: Console, text: str = "") -> None:
    """Print text as it is, without secrets; long paths are not wrapped."""
    console.print(printable(redacted(text)), soft_wrap=True, markup=False, highlight=False, emoji=False)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print_marked("warning:", "yellow", text)


def print_marked(mark: str, style: str, text: str) -> None:
    """Print text after a coloured word on standard error."""
    line = Text.assemble((mark, style), " ", redacted(text))
    PlainConsole(stderr=True).print(line, soft_wrap=True)
