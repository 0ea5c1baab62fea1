"""Print text on the terminal literally: names, titles, errors and paths are not markup."""

from typing import Any

from rich.console import Console
from rich.text import Text

from fedgrid.redaction import redact_secrets


class PlainConsole(Console):
    """A console to which a string is text: without markup and emoji codes.

    All consoles of this program are of this class. Colours come from `Text` and from styles.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a string to text without interpreting markup or emoji codes, in table cells too."""
        return super().render_str(text, **{**options, "markup": False, "emoji": False})


def print_plain(console: Console, text: str = "") -> None:
    """Print text literally and without secrets; long lines are not wrapped, so that a path can be copied."""
    console.print(redact_secrets(text), soft_wrap=True, markup=False, highlight=False, emoji=False)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print_marked("warning:", "yellow", text)


def print_marked(mark: str, style: str, text: str) -> None:
    """Print text after a coloured word on standard error."""
    # A new console each time: standard error may have been replaced since the last message.
    line = Text.assemble((mark, style), " ", redact_secrets(text))
    PlainConsole(stderr=True).print(line, soft_wrap=True)
