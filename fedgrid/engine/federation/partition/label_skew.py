"""Label skew: each client owns a few of the labels, and shares their images with their other owners.

Client i always owns label i mod L. Its other labels are drawn at random. The images of a label, in a seeded
order, are cut into nearly equal parts, one for each of its owners. With fewer clients than labels, a label
may have no owner; its images are left out. No image is held by two clients.

The hidden groups are ours, since the source has none: clients with the same label i mod L are a group. By
chance others have a label in common too.

Source: Morafah et al., FLIS: Clustered Federated Learning via Inference Similarity for Non-IID Data
Distribution, 2022, with its code, whose rule is that of NIID-Bench (Li et al. 2022). Deviation: their branch
for ten labels, which deals labels 0 to 9 out to all clients, is wrong with more than ten classes; here ten
labels are no exception.

Shapes: K clients, L classes.
"""

from fractions import Fraction

import numpy as np

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.seeds import make_generator


class LabelSkew(SplitKind):
    """A kind in which each client owns a few labels, and shares their images with other owners."""

    OPTIONS = ("labels_share",)
    BY_CLASS = True

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that each client owns a label."""
        count_labels_per_client(facts.num_classes, split.labels_share)

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Cut each class among the clients that own it."""
        num_classes = len(pool.positions_L)
        owned_K = draw_owned_labels(
            num_classes, count_labels_per_client(num_classes, split.labels_share), rngs_K
        )
        parts_K: list[list[Positions]] = [[] for _ in owned_K]
        for label, positions in enumerate(pool.positions_L):
            owners = [client for client, owned in enumerate(owned_K) if label in owned]
            if len(owners) > len(positions):
                raise ConfigError(
                    f"clients = {scenario.num_clients}: with split label-skew {len(owners)} of them own "
                    f"label {label}, which has {len(positions)} images; take fewer clients or a smaller "
                    "split.labels_share",
                    ("clients",),
                )
            shuffled = make_generator(seed, f"class {label} of {scenario.seed_text}").permutation(positions)
            # `array_split` needs a part even for a label without owners; `strict=False` then drops its
            # images.
            for client, part in zip(owners, np.array_split(shuffled, max(1, len(owners))), strict=False):
                parts_K[client].append(part)
        groups_K = [client % num_classes for client in range(scenario.num_clients)]
        return Partition(groups_K, [np.sort(np.concatenate(parts)) for parts in parts_K])

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Estimate the images of all labels that are owned.

        A client's L - 1 other labels are equally likely, so each of them has this client as an owner with
        probability (q - 1) / (L - 1).

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set.
            split: the settings.
            seed: the run's seed; it has no effect here.
        """
        num_classes, num_clients = facts.num_classes, scenario.num_clients
        # Each client is sure to own one label: the first K, or all of them.
        sure = min(num_clients, num_classes)
        other = (count_labels_per_client(num_classes, split.labels_share) - 1) / max(1, num_classes - 1)
        owned = sure + (num_classes - sure) * (1 - (1 - other) ** num_clients)
        return facts.pool_size * owned / num_classes


def count_labels_per_client(num_classes: int, share: float) -> int:
    """Count the labels that a client owns, q: `share` of L, rounded half to even.

    Raises:
        ConfigError: it is none.
    """
    owned = round(Fraction(repr(share)) * num_classes)
    if owned == 0:
        raise ConfigError(
            f"split.labels_share = {share}: of {num_classes} classes that is less than one label a "
            f"client; take at least {1 / num_classes:.2g}",
            ("split", "labels_share"),
        )
    return owned


def draw_owned_labels(num_classes: int, owned: int, rngs_K: Rngs) -> list[set[int]]:
    """Draw the labels of each client: its own, client mod L, and others by its generator."""
    labels = np.arange(num_classes)
    return [
        {
            client % num_classes,
            *rng.choice(np.delete(labels, client % num_classes), owned - 1, replace=False).tolist(),
        }
        for client, rng in enumerate(rngs_K)
    ]
