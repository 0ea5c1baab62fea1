"""The first page of the site, and that of the reference: the navigation, with each page's first sentence."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

import yaml

from docs.reference.markdown import page

ROOT = Path(__file__).parents[2]
HOME = "index.md"
REFERENCE = "reference/index.md"
BLOCK = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)


def pages(made: Mapping[str, str]) -> dict[str, str]:
    """Write both pages: path -> text.

    Args:
        made: path -> text of the other generated pages.
    """
    shelves = [entry for entry in navigation() if isinstance(entry, dict)]
    home = page("# All pages", *(part for shelf in shelves for part in _shelf(shelf, HOME, made, "##")))
    [reference] = [shelf for shelf in shelves if "Reference" in shelf]
    intro = "Made from the code when the site is built. " + (
        "On the terminal: `fedgrid list keys`, `fedgrid list columns`, `fedgrid list commands`, "
        "`fedgrid list algorithms`, `fedgrid list models`, `fedgrid list presets`, `fedgrid data`."
    )
    [heading, *rest] = _shelf(reference, REFERENCE, made, "#")
    return {HOME: home, REFERENCE: page(heading, intro, *rest)}


def navigation() -> list[Any]:
    """Read the navigation of `mkdocs.yml`: pages, and shelves with pages or groups of pages."""
    entries: list[Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    return entries


def shelf_paths(entry: Any) -> list[str]:
    """List the pages of an entry of the navigation, with those of its groups."""
    if isinstance(entry, str):
        return [entry]
    return [path for inner in entry.values() for one in inner for path in shelf_paths(one)]


def _shelf(shelf: Mapping[str, Any], at: str, made: Mapping[str, str], marks: str) -> Iterator[str]:
    """Yield a shelf's heading, the list of its pages, and its groups below."""
    [(name, entries)] = shelf.items()
    yield f"{marks} {name}"
    paths = [path for path in entries if isinstance(path, str) and path != at]
    yield "\n".join(_line(path, at, made) for path in paths)
    for group in entries:
        if isinstance(group, dict) and any(group.values()):
            yield from _shelf(group, at, made, f"{marks}#")


def _line(path: str, at: str, made: Mapping[str, str]) -> str:
    text = BLOCK.sub("", made[path] if path in made else _read(path))
    title, *others = (part for part in text.strip().split("\n\n") if part.strip())
    # Neither a table nor an indented block of commands.
    prose = next((part for part in others if re.match(r"\n?[\w`*\[]", part)), "")
    sentence = re.split(r"(?<=[.:]) (?=[A-Z`*\[])", " ".join(prose.split()))[0]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    name = title.strip("# \n").replace("`", "")
    about = f": {plain}" if plain.endswith((".", "?")) else ""
    return f"- [{name}]({relpath(path, PurePosixPath(at).parent)}){about}"


def _read(path: str) -> str:
    # The page of the reference is not there yet: it names itself.
    return "# Reference" if path == REFERENCE else (ROOT / "docs" / path).read_text()
