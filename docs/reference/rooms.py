"""The page of the rooms: every folder of the code, in the words of its own `__init__.py`."""

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.reference.markdown import code, page, table

HOUSE = Path(__file__).parents[2] / "fedgrid"
PACKAGES = {
    "algorithms": "algorithms: what a server does with its clients' updates",
    "engine": "engine: one run",
    "grids": "grids: many runs",
    "tracking": "tracking: what is kept and shown",
}
"""Package -> heading."""


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    tables = [
        part
        for package, heading in PACKAGES.items()
        for part in (f"## {heading}", table(("room", "what it is for"), rooms(package)))
    ]
    intro = "How they work together: [a map of the house](../house.md)."
    return {"reference/rooms.md": page("# Rooms of the code", intro, *tables)}


def rooms(package: str) -> Iterator[tuple[str, str]]:
    """Yield each room of a package below its top, as code, and what it is for."""
    for path in sorted((HOUSE / package).rglob("__init__.py")):
        name = path.parent.relative_to(HOUSE / package).as_posix()
        if name != ".":
            docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
            yield code(f"{name}/"), docstring.partition("\n")[0]
