"""The generated pages of the site. Those that other pages lead to are committed: a clone has no site.

`python -m docs.reference.pages` writes them anew.
"""

import re
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import normpath

from docs.reference import (
    algorithms,
    api,
    command_line,
    configuration,
    data,
    presets,
    records,
    report,
    rooms,
    scores,
)

README = "readme.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
"""Its text, its target, and the heading there."""
DOCS = Path(__file__).parents[1]
COMMITTED = (
    *("reference/api.md", "reference/configuration.md", "reference/data.md", "reference/presets.md"),
    *("reference/records.md", "reference/report.md", "reference/scores.md", "reference/algorithms/index.md"),
)
"""Others are long, and a command shows them: `fedgrid COMMAND --help`, `fedgrid list algorithms NAME`."""


@cache
def pages() -> dict[str, str]:
    """Return path below docs/ -> text, in the order of the shelf."""
    return {
        README: readme(),
        **command_line.pages(),
        **configuration.pages(),
        **presets.pages(),
        **data.pages(),
        **algorithms.pages(),
        **records.pages(),
        **scores.pages(),
        **report.pages(),
        **api.pages(),
        **rooms.pages(),
    }


def committed() -> dict[str, str]:
    """Return path -> text of the pages that are committed, without links to those that are not."""

    def plain(link: re.Match[str]) -> str:
        return link[0] if normpath(f"{folder}/{link[2]}") not in lacking else f"`{link[1].strip('`')}`"

    lacking = set(pages()) - set(COMMITTED)
    texts = {}
    for path in COMMITTED:
        folder = PurePosixPath(path).parent
        texts[path] = LINK.sub(plain, pages()[path])
    return texts


def readme() -> str:
    """Return the README as a page of the site."""
    text = (Path(__file__).parents[2] / "README.md").read_text()
    return re.sub(r"\]\((?!\w+:|#)(docs/)?", lambda link: "](" if link[1] else "](../", text)


if __name__ == "__main__":
    for path, text in committed().items():
        (DOCS / path).parent.mkdir(exist_ok=True)
        (DOCS / path).write_text(text)
