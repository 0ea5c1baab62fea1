"""The pages written by hand are few enough to be read: their words are counted."""

from docs.reference.pages import pages
from docs.reference.shelves import navigation, shelf_paths
from tests.docs.test_pages import DOCS, ROOT

MOST = 25_000
"""Words, as `wc -w` counts them."""


def test_pages_by_hand_have_at_most_so_many_words() -> None:
    """Of the navigation, neither generated nor evidence; with README, CONTRIBUTING and SECURITY."""
    shelved = [path for entry in navigation() for path in shelf_paths(entry)]
    by_hand = [path for path in shelved if path not in pages() and not path.startswith("evidence/")]
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    counts = {
        path.name: len(path.read_text().split()) for path in [*files, *(DOCS / path for path in by_hand)]
    }
    assert len(counts) == len(files) + len(by_hand)
    assert sum(counts.values()) <= MOST, counts
