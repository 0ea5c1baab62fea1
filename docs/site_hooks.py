"""Links that leave docs/ become plain text in the site, which has no other files of the repository."""

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./|examples/|figures\.py|own_report\.py)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text without such links."""
    return OUTSIDE.sub(r"`\1`", markdown)
