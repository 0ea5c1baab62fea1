"""Plain text on the terminal: brackets in names are not read as markup, and long paths are not wrapped."""

from rich.console import Console
from rich.markup import escape


def print_plain(console: Console, text: str = "") -> None:
    """Print text unchanged."""
    console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)


def warn(text: str) -> None:
    """Print a warning on standard error."""
    line = f"[yellow]warning:[/] {escape(text)}"
    Console(stderr=True).print(line, highlight=False, soft_wrap=True, emoji=False)
