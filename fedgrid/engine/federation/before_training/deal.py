"""Which client of a run holds which images. Without torch: a driver checks the splits of all runs first."""

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.dealing.server_images import hold_out
from fedgrid.engine.federation.dealing.split import ClientSplit, split_pool, with_official_tests


def deal(config: RunConfig, pair: Pair, num_classes: int) -> tuple[ClientSplit, ...]:
    """Return which client holds which images; needs their classes, groups and size, but no pixels.

    Raises:
        ConfigError: a split that the data set cannot carry.
    """
    pool, server = pair
    rest, _ = hold_out(server, config.split.reference_images, config.root_seed)
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
    if config.split.tested_on == "official" and config.split.scored_on == "test":
        return with_official_tests(parts_K, pool, rest, config.split.kind)
    return parts_K
