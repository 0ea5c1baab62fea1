"""Descriptions in MLflow, in Markdown: written again when a run ends, unless the user has changed them.

A note of `fedgrid tag` stands above a run's description; its tags are tags in MLflow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from fedgrid.redaction import redacted

NOTE_TAG, OURS_TAG = "mlflow.note.content", "fedgrid.note"
"""A description, and the digest of what was written there last: another text is the user's own."""
ANNOTATED_TAG = "fedgrid.annotated"
"""A digest of the `Annotation` that was written last, and the keys of its tags."""
RULE = "\n\n---\n\n"
"""Between a note and the description below it."""
LENGTH = 8000
"""MLflow's limit."""


@dataclass(frozen=True)
class Annotation:
    """What a user has written on a run, outside MLflow."""

    note: str = ""
    """In Markdown."""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """The value of `ANNOTATED_TAG`, empty if there is neither a note nor a tag."""
        if not self.note and not self.tags:
            return ""
        return " ".join([_digest(repr((self.note, sorted(self.tags.items())))), *sorted(self.tags)])

    def tags_of(self, there: Mapping[str, str], description: str | None) -> dict[str, str]:
        """Return what is to be set in a run that has the tags `there`, by key.

        `description` stands below the note; None: what stands there now.
        """
        text = there.get(NOTE_TAG, "").rpartition(RULE)[2] if description is None else description
        return {
            **self._own_tags,
            **(noted(f"{self.note}{RULE}{text}" if self.note else text) if is_ours(there) else {}),
        }

    def outdated(self, there: Mapping[str, str]) -> list[str]:
        """Return the keys of those of the tags `there` that were written from an earlier one alone."""
        before = [*there.get(ANNOTATED_TAG, "").split()[1:], ANNOTATED_TAG]
        return [key for key in before if key in there and key not in self._own_tags]

    @property
    def _own_tags(self) -> dict[str, str]:
        return {**self.tags, **({ANNOTATED_TAG: self.mark} if self.mark else {})}


NO_ANNOTATION = Annotation()


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
