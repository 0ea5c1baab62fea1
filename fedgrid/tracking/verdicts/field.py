"""All methods in one question, within one protocol, over the blocks that every competitor has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedgrid.tracking.verdicts.against import shared_blocks
from fedgrid.tracking.verdicts.families import Families, by_family, families_of
from fedgrid.tracking.verdicts.outcomes import Outcome, Protocol, Settings
from fedgrid.tracking.verdicts.pairwise import Pairwise, compare_all
from fedgrid.tracking.verdicts.verdict import (
    CLUSTERING,
    Question,
    Standing,
    competitors,
    grouped,
    in_any_family,
    scores_of,
    standings,
    taking_part,
)


@dataclass(frozen=True)
class Field:
    """The methods of a question side by side."""

    question: Question
    protocol: Protocol
    outcomes: tuple[Outcome, ...]
    """Those of the blocks that every competitor has."""
    standings: Mapping[str, Standing]
    """By method: the competitors by mean rank, then references."""
    pairwise: Pairwise
    families: Families
    """Of clustering also those without groups."""
    names_of_families: list[str]
    """Families in which the question has a right answer: of clustering, those with groups, and of clients
    that do not differ."""
    left_out: int
    """Blocks in which a competitor has no result."""

    @property
    def competing(self) -> list[str]:
        """The competitors, best mean rank first."""
        return [*self.pairwise.ranking.ranks]

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self.pairwise.ranking.num_blocks

    @property
    def where(self) -> str:
        """The blocks, in words."""
        families = len({outcome.family for outcome in self.outcomes})
        return f"{families} families x {len({outcome.seed for outcome in self.outcomes})} seeds"

    def title(self, method: str) -> str:
        """Return what tables call a method."""
        return self.standings[method].title


def field_of(
    outcomes: Iterable[Outcome], question: Question, settings: Settings, protocol: Protocol
) -> Field | None:
    """Return the methods of a question; None if no two competitors share a block."""
    outcomes = tuple(outcomes)
    chosen = taking_part(outcomes, question, settings, protocol)
    there = grouped(chosen)
    competing = competitors(there)
    shared = shared_blocks(competing, scores_of(there, question))
    if len(competing) < 2 or not shared:
        return None
    kept = tuple(outcome for outcome in chosen if outcome.block in shared)
    by_method = grouped(kept)
    pairwise = compare_all(competing, scores_of(by_method, question))
    found = standings(by_method, question)
    wide = in_any_family(outcomes, question, settings, protocol)
    order = [*pairwise.ranking.ranks, *(name for name in found if name not in competing)]
    return Field(
        question,
        protocol,
        kept,
        {name: found[name] for name in order},
        pairwise,
        by_family(grouped(wide)),
        families_of(wide, of_groups=question is CLUSTERING),
        len({outcome.block for outcome in chosen}) - len(shared),
    )


def in_every_family(families: Families, of: Sequence[str]) -> list[str]:
    """Return the methods of `of` that are nowhere, on average, served worse than by ORACLE."""
    return [method for method in of if all(not found.regret > 0 for found in families[method].values())]
