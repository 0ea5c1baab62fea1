"""Which client of a run holds which images, also once it has moved to another hidden group.

Without torch: a driver checks the splits of all runs first.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.dealing.kinds import Movable, kind_of
from fedgrid.engine.federation.dealing.server_images import hold_out
from fedgrid.engine.federation.dealing.split import (
    ClientSplit,
    cut,
    kept,
    positions_by_class,
    require_images,
    split_pool,
    with_official_tests,
)
from fedgrid.engine.federation.partition.scenarios import Pool
from fedgrid.engine.federation.seeds import generator


def deal(config: RunConfig, pair: Pair, num_classes: int) -> tuple[ClientSplit, ...]:
    """Return which client holds which images; needs their classes, groups and size, but no pixels.

    Raises:
        ConfigError: a split that the data set cannot carry.
    """
    pool, _ = pair
    parts_K = split_pool(
        pool.labels,
        dataset=config.dataset,
        num_classes=num_classes,
        num_clients=config.clients,
        split=config.split,
        seed=config.seed,
        shape=pool.images.shape[1:],
        pool_groups=pool.groups,
    )
    return _tested(config, pair, parts_K)


def deal_again(
    config: RunConfig, pair: Pair, num_classes: int, parts_K: Sequence[ClientSplit]
) -> tuple[ClientSplit, ...]:
    """Return what the clients of `config.drift`, in its order, hold after their moves. A pure function.

    Needs what `deal` needs; `parts_K` is what it has returned.

    Raises:
        ConfigError: a client would have no training or no test image.
    """
    if not config.drift:
        return ()
    (pool, _), scenario, split, seed = pair, config.split_scenario, config.split, config.seed
    images = Pool(positions_by_class(pool.labels, num_classes), pool.labels)
    kind = kind_of(split.kind)
    assert isinstance(kind, Movable), "`RunConfig` has seen that"
    moved = []
    for client, move in config.drift.items():
        rng = generator(seed, f"drift of {scenario.seed_text}", client=client)
        held = kind.draw_again(scenario, images, split, seed, rng, move.to)
        if held is None:
            moved.append(replace(parts_K[client], cluster=move.to))
        else:
            held = kept(held, split, rng)
            [parts] = cut(scenario, [held], [rng], images, split, seed)
            moved.append(ClientSplit(client, move.to, *parts))
    require_images(moved, split)
    return _tested(config, pair, moved)


def _tested(config: RunConfig, pair: Pair, parts_K: Sequence[ClientSplit]) -> tuple[ClientSplit, ...]:
    """Return the clients with the official test images, if these are what they are tested on.

    Raises:
        ConfigError: there are too few of them.
    """
    pool, official = pair
    rest, _ = hold_out(official, config.split.reference_images, config.root_seed)
    if config.split.tested_on != "official" or config.split.scored_on != "test":
        return tuple(parts_K)
    return with_official_tests(parts_K, pool, rest, config.split.kind)
