"""The generated pages of the site: from the code, the README and the navigation; none is committed."""

import re
from functools import cache
from pathlib import Path

from docs.reference import (
    algorithms,
    api,
    command_line,
    configuration,
    contract,
    data,
    presets,
    records,
    report,
    rooms,
    scores,
    shelves,
    tested_promises,
)

README = "readme.md"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
"""Its text, its target, and the heading there."""


@cache
def pages() -> dict[str, str]:
    """Write all generated pages: path below docs/ -> text, in the order of the shelf."""
    made = {
        README: readme(),
        **command_line.pages(),
        **configuration.pages(),
        **presets.pages(),
        **data.pages(),
        **algorithms.pages(),
        **records.pages(),
        **scores.pages(),
        **report.pages(),
        **contract.pages(),
        **api.pages(),
        **rooms.pages(),
        **tested_promises.pages(),
    }
    return {**shelves.pages(made), **made}


def readme() -> str:
    """Write the README as a page of the site."""
    text = (Path(__file__).parents[2] / "README.md").read_text()
    return re.sub(r"\]\((?!\w+:|#)(docs/)?", lambda link: "](" if link[1] else "](../", text)
