"""What drivers of one storage tell each other: what each of them changes, needs and deletes there.

Two drivers can use a storage at the same time unless one changes or deletes what the other changes, or
deletes what the other needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

GRID = "grid "
"""Start of the key of a grid's name; a run's key is its id."""


@dataclass(frozen=True)
class Claims:
    """Keys of things in a storage, each with the words for it in a message."""

    changes: Mapping[str, str] = field(default_factory=dict)
    """For one driver alone, such as the grid's own folder and each run that is not finished."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """What must stay, such as the grid's finished runs."""
    deletes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, found: Any) -> Self:
        """Return the claims of another driver, whose words are not known.

        Raises:
            ValueError: this is not what `as_json` returns.
        """
        try:
            kinds = [{str(key): str(key) for key in found[kind]} for kind in ("changes", "needs", "deletes")]
        except (KeyError, TypeError) as error:
            raise ValueError("no claims") from error
        return cls(*kinds)

    def as_json(self) -> dict[str, list[str]]:
        """Return the keys of each kind."""
        return {"changes": [*self.changes], "needs": [*self.needs], "deletes": [*self.deletes]}

    def and_grid(self, *names: str) -> "Claims":
        """Return these claims and those on grids of such names."""
        grids = {f"{GRID}{name}": f"the grid {name}" for name in names}
        return Claims({**grids, **self.changes}, self.needs, self.deletes)

    def clash(self, other: "Claims") -> str | None:
        """Return what the other driver does that these claims exclude, None if both can go on."""
        everything = {**other.changes, **other.needs, **other.deletes}
        for verb, mine, theirs in (
            ("works on", self.changes, other.changes),
            ("deletes", {**self.changes, **self.needs}, other.deletes),
            ("needs", self.deletes, everything),
        ):
            if found := [words for key, words in mine.items() if key in theirs]:
                return f"{verb} {_words(found)}"
        return None


NONE = Claims()


def _words(found: Sequence[str]) -> str:
    return found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "")
