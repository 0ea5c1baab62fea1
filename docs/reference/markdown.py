"""Markdown for the generated pages: tables, and docstrings with their sections."""

import inspect
import re
from collections.abc import Iterable, Sequence

SECTIONS = {
    "Sends": "What is sent",
    "Degenerate cases": "Degenerate cases",
    "Absent clients": "Clients that come and go",
    "As published": "As published",
    "Memory": "What the server keeps",
}
"""Paragraphs of an algorithm's docstring that begin like this -> their heading, in the order of the page."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; empty text without rows."""
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(header) + " |", "| --- " * len(header) + "|", *lines])


def code(text: object) -> str:
    """Return text as code; empty text as it is."""
    return f"`{text}`" if str(text) else ""


def linked(text: str, up: str) -> str:
    """Return text in which arXiv numbers and pages of docs/ are links; `up` leads from the page to docs/."""
    text = re.sub(r"arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)
    return re.sub(r"docs/((?:[\w-]+/)*([\w-]+)\.md)", rf"[\2]({up}\1)", text)


def page(*parts: str) -> str:
    """Return the parts that are not empty, a blank line between them."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def paragraphs(thing: object) -> list[str]:
    """Return the paragraphs of the docstring of a module, class or function."""
    # Arguments and examples stand on the page of what `fedgrid` exports.
    text = re.split(r"\n\n(?:Args|Returns|Raises|Example):\n", inspect.getdoc(thing) or "")[0]
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def sections(thing: object) -> dict[str, str]:
    """Return the text of a docstring by section; what stands before the first one is under the empty name."""
    by_section: dict[str, list[str]] = {}
    name = ""
    for text in paragraphs(thing):
        label, colon, rest = text.partition(":")
        if colon and label in SECTIONS:
            name, text = label, rest.strip("\n ")
        by_section.setdefault(name, []).append(text)
    return {name: "\n\n".join(filter(None, texts)) for name, texts in by_section.items()}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
