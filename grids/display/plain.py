"""Plain text on the terminal: brackets in names are not read as markup, and long paths are not wrapped.

Secrets and control characters are not printed: some of the text comes from libraries and other users.
"""

from rich.console import Console
from rich.markup import escape

from fedgrid.redaction import printable, redacted


def print_plain(console: Console, text: str = "") -> None:
    """Print text as it is."""
    console.print(printable(redacted(text)), soft_wrap=True, markup=False, highlight=False, emoji=False)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    line = f"[yellow]warning:[/] {escape(printable(redacted(text)))}"
    Console(stderr=True).print(line, highlight=False, soft_wrap=True, emoji=False)
