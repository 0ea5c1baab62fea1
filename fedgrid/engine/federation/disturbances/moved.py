"""What the clients of a run hold after they have moved to another hidden group.

Shapes: K clients, L classes.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing.kinds import Movable, kind_of
from fedgrid.engine.federation.dealing.split import (
    ClientSplit,
    cut,
    kept,
    positions_by_class,
    require_images,
    with_official_tests,
)
from fedgrid.engine.federation.disturbances.drift import Drift
from fedgrid.engine.federation.partition.scenarios import Pool, Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import generator


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
