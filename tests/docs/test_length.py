"""How-to pages are short: one task each, at most 600 words."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MOST = 600
"""Words of a how-to page, its code included."""


def pages_of(entry: str | list | dict) -> list[str]:
    """Return the pages of a part of the navigation, however nested."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_of(part)]


def how_to_pages() -> list[str]:
    """Return the pages of the section "How-to"."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    sections = [entry for entry in navigation if isinstance(entry, dict)]
    return [page for section in sections if "How-to" in section for page in pages_of(section["How-to"])]


@pytest.mark.parametrize("page", how_to_pages())
def test_how_to_has_at_most_600_words(page: str) -> None:
    assert len((ROOT / "docs" / page).read_text().split()) <= MOST
