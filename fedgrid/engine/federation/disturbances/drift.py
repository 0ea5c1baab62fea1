"""The section `drift` of a run's configuration: clients whose data change from one hidden group to another.

From its round on, a client trains and is tested on images of its new group, and the truth says so. Where
groups change images or labels (rotated, flipped, swapped, dimmed, noisy) it keeps its images, changed as in
the new group.
Where groups are sets of classes (overlapping, nonoverlapping) it draws new images from the new group's
classes, by the same rule as its first ones. Other kinds of scenarios have no images to draw again.

Source of the idea: Prigent et al., section VII, and Bettinelli et al., section VI, name it as future work;
how data change is ours.

Shapes: K clients.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.dealing.kinds import KINDS, Movable, kind_of
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split


class Move(Section):
    """One client's change."""

    round: Annotated[int, Field(ge=2, strict=True)]
    """The first round, from 2, in which it holds images of the new group."""
    to: Annotated[int, Field(ge=0, strict=True)]
    """The new hidden group, from 0, as in the column `true_cluster` of the records."""


Drift = Mapping[int, Move]


def problem_with(
    drift: Drift, scenario: Scenario, split: Split, rounds: int, joins: Mapping[int, int]
) -> str | None:
    """Return in one line why these moves are impossible, None if they are not; needs no images."""
    kind = kind_of(scenario.split)
    if not drift:
        return None
    if not isinstance(kind, Movable):
        able = ", ".join(name for name, other in KINDS.items() if isinstance(other, Movable))
        return f"clients of split {scenario.split} cannot move to another group, only those of: {able}"
    groups_K = kind.groups(scenario, split)
    for client, move in drift.items():
        if client >= scenario.num_clients:
            return f"client {client} does not exist, the last one is {scenario.num_clients - 1}"
        if move.to >= split.num_clusters:
            return f"client {client} moves to group {move.to}, but the last one is {split.num_clusters - 1}"
        if move.to == groups_K[client]:
            return f"client {client} is in group {move.to} from the start; choose another one"
        if move.round > rounds:
            return f"client {client} moves in round {move.round}, but the last one is {rounds}"
        if move.round <= joins.get(client, 1):
            return f"client {client} moves in round {move.round}, but joins in round {joins[client]}"
    return None
