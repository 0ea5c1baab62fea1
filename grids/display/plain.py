"""Text on the terminal as it is: names in brackets are no markup, and long paths stay in one line."""

from rich.console import Console


def print_plain(console: Console, text: str = "") -> None:
    """Print text as it is."""
    console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)
