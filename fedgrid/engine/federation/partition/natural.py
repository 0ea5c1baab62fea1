"""Natural: the hidden groups are those of the data, such as domains or writers.

The clients are spread over the groups as evenly as possible, in the order of both; a group deals its images
to its clients, evenly or by a Dirichlet distribution (`split.alpha`). With as many clients as groups each
group is a client. With fewer clients a seeded choice of the groups takes part, one client each, and the other
images are left out.

Sources: Caldas et al., LEAF, 2018 (FEMNIST: a client is a writer); Prigent et al. (PACS: ten clients for each
of four domains, alpha 10).

Shapes: K clients, G groups, L classes, N images.
"""

from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.dirichlet import deal_by_shares
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import Scenario, compute_cluster_sizes
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator

NATURAL = "natural"
"""Name of the kind in configurations."""


class NaturalSplit(SplitKind):
    """A kind whose hidden groups are those of the data, such as domains or writers."""

    OPTIONS = ("alpha",)
    DEFAULTS = MappingProxyType({"alpha": None})

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that the images have groups."""
        if facts.num_groups is None:
            raise ConfigError(
                f"split natural: the images of {scenario.dataset} have no groups; take another split, or "
                "folder:PATH with train/<group>/<class>/*, npz:PATH with train_group and test_group, or "
                "csv:PATH or hf:NAME with a column group",
                ("split", "kind"),
            )

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Deal each group's images to its clients."""
        assert pool.groups_N is not None, "`check_settings` has seen groups"
        group_K = _choose_groups(int(pool.groups_N.max()) + 1, scenario, seed)
        # Sorted once, stable, so that a group is a slice with ascending positions; FEMNIST has 3,550 groups.
        by_group_N = np.argsort(pool.groups_N, kind="stable")
        stops_G = np.bincount(pool.groups_N).cumsum()
        groups, clients = np.unique(group_K, return_counts=True)
        held_K: list[Positions] = []
        for group, num_clients in zip(groups.tolist(), clients.tolist(), strict=True):
            members = by_group_N[stops_G[group - 1] if group else 0 : stops_G[group]]
            rng = make_generator(seed, f"deal of group {group} of {scenario.seed_text}")
            if num_clients > len(members):
                raise ConfigError(
                    f"clients = {scenario.num_clients}: {num_clients} of them would share the {len(members)} "
                    f"images of group {pool.group_names[group] if pool.group_names else group}; take fewer",
                    ("clients",),
                )
            # Classes of this group alone, which may lack some.
            positions_L = [
                members[pool.labels_N[members] == label] for label in np.unique(pool.labels_N[members])
            ]
            held_K += (
                deal_by_shares(positions_L, num_clients, split.alpha, rng) if num_clients > 1 else [members]
            )
        return Partition(group_K.tolist(), held_K, group_names=tuple(pool.group_names))

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Estimate the images of the groups that take part, as if all were equally large.

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set.
            split: the settings.
            seed: the run's seed; it has no effect here.
        """
        return facts.pool_size * min(1.0, scenario.num_clients / (facts.num_groups or 1))


def _choose_groups(num_groups: int, scenario: Scenario, seed: int) -> NDArray[np.int64]:
    """Choose the group of each client, ascending, shape (K,)."""
    if scenario.num_clients < num_groups:
        rng = make_generator(seed, f"groups of {scenario.seed_text}")
        return np.sort(rng.choice(num_groups, scenario.num_clients, replace=False))
    return np.repeat(
        np.arange(num_groups), compute_cluster_sizes(scenario.num_clients, num_groups, "balanced")
    )
