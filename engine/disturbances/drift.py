"""The section `drift` of a run's configuration: clients whose data change from one hidden group to another.

From its round on, a client trains and is tested on images of its new group, and the truth says so. Where
groups change images or labels (rotated, flipped, swapped, dimmed, noisy) it keeps its images, changed as in
the new group.
Where groups are sets of classes (overlapping, nonoverlapping) it draws new images from the new group's
classes, by the same rule as its first ones. Other kinds of scenarios have no images to draw again.

Source of the idea: Prigent et al., section VII, and Bettinelli et al., section VI, name it as future work;
how data change is ours.

Shapes: K clients, L classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.partition.kinds import KINDS, Movable, kind_of
from fedgrid.engine.partition.scenarios import Pool, Scenario
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.partition.split import (
    ClientSplit,
    cut,
    kept,
    positions_by_class,
    require_images,
    with_official_tests,
)
from fedgrid.engine.seeds import generator


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


def moved_parts(
    drift: Drift,
    parts_K: Sequence[ClientSplit],
    pool: ImageSet,
    official: ImageSet,
    scenario: Scenario,
    num_classes: int,
    split: Split,
    seed: int,
) -> tuple[ClientSplit, ...]:
    """Return what the clients of `drift`, in its order, hold after their moves. A pure function.

    Args:
        drift: moves that `problem_with` accepts.
        parts_K: the clients' images before.
        pool: the images that clients share out; only their labels are looked at.
        official: the official test images, for `split.tested_on='official'`.
        scenario: its kind decides which images those are.
        num_classes: L.
        split: settings.
        seed: the run's seed.

    Raises:
        ConfigError: a client would have no training or no test image.
    """
    if not drift:
        return ()
    images = Pool(positions_by_class(pool.labels, num_classes), pool.labels)
    kind = kind_of(scenario.split)
    assert isinstance(kind, Movable), "`problem_with` has seen that"
    moved = []
    for client, move in drift.items():
        rng = generator(seed, f"drift of {scenario.seed_text}", client=client)
        held = kind.draw_again(scenario, images, split, seed, rng, move.to)
        if held is None:
            moved.append(replace(parts_K[client], cluster=move.to))
        else:
            held = kept(held, split, rng)
            [parts] = cut(scenario, [held], [rng], images, split, seed)
            moved.append(ClientSplit(client, move.to, *parts))
    require_images(moved, split)
    if split.tested_on == "official" and split.scored_on == "test":
        return with_official_tests(moved, pool, official, scenario.split)
    return tuple(moved)
