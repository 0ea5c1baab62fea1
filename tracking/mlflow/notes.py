"""Descriptions in MLflow, in Markdown: written again when a run ends, unless the user has changed them."""

from collections.abc import Mapping
from hashlib import sha256

from fedgrid.redaction import redacted

NOTE_TAG, OURS_TAG = "mlflow.note.content", "fedgrid.note"
"""A description, and the digest of what was written there last: another text is the user's own."""
LENGTH = 8000
"""MLflow's limit."""


def is_ours(tags: Mapping[str, str]) -> bool:
    """Return whether a description is absent, or is what was written here last."""
    note = tags.get(NOTE_TAG)
    return note is None or tags.get(OURS_TAG) == _digest(note)


def noted(note: str) -> dict[str, str]:
    """Return the tags of a description."""
    text = redacted(note)[:LENGTH]
    return {NOTE_TAG: text, OURS_TAG: _digest(text)}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
