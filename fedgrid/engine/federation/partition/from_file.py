"""File: a file says which client holds which examples.

Each example has a client, or none; each client may have a hidden group. If the file also says which examples
a client is tested on, that cut is taken, else it is made as for other splits. Without groups all clients
count as one, and no score compares clusters with groups. The format, and how to write it:
`docs/own-split.md`.

Source: the author of the file; its content is part of the run's identity.

Shapes: K clients.
"""

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.kind import ImagePool, Rngs, SplitKind
from fedgrid.engine.federation.partition.scenarios import Scenario
from fedgrid.engine.federation.partition.settings import Split

FILE = "file"
"""Name of the kind in configurations."""


class FileSplit(SplitKind):
    """A kind in which a file says which client holds which examples."""

    OPTIONS = ("path",)
    IMAGES_ARE_SHARED = True

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that the file fits the data set and the other settings."""
        assigned = facts.assigned
        if assigned is None:
            raise ConfigError(
                f"split {scenario.split} needs a file, or a data set that says who holds what; name one, as "
                "in split.path=partition.csv",
                ("split", "path"),
            )
        if scenario.num_clients != assigned.num_clients:
            raise ConfigError(
                f"clients = {scenario.num_clients}: {assigned.source} has {assigned.num_clients}; leave it "
                "out",
                ("clients",),
            )
        _check_examples(assigned, scenario.dataset, facts.pool_size)
        if assigned.is_cut:
            _check_cut(assigned, split)

    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Take the partition that the file describes."""
        assert pool.assigned is not None, "`check_settings` has seen it"
        return pool.assigned

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Count the examples that clients hold.

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set, with the file's partition.
            split: the settings.
            seed: the run's seed; it has no effect here.
        """
        assert facts.assigned is not None, "`check_settings` has seen it"
        return float(sum(map(len, facts.assigned.held_K)))


def _check_cut(assigned: Partition, split: Split) -> None:
    """Check that no setting contradicts the cut into training and tests that a file has."""
    if assigned.num_leaked and split.test_leakage == "none":
        raise ConfigError(
            f"split.test_leakage = none: {assigned.source} has {assigned.num_leaked} examples that a client "
            "is tested on and another one trains on; mend it, or set split.test_leakage=published to take it "
            "as it is",
            ("split", "test_leakage"),
        )
    if split.tested_on == "official":
        raise ConfigError(
            f"split.tested_on = official: {assigned.source} says what clients are tested on (column part); "
            "leave one of the two out",
            ("split", "tested_on"),
        )
    if split.scored_on == "test" and split.test_share != Split.model_fields["test_share"].get_default():
        raise ConfigError(
            f"split.test_share = {split.test_share} has no effect: {assigned.source} says what clients are "
            "tested on (column part); leave one of the two out",
            ("split", "test_share"),
        )


def _check_examples(assigned: Partition, dataset: str, pool_size: int) -> None:
    """Check that the file's examples are those of the pool."""
    pool = f"{dataset} has {pool_size} examples to draw from"
    if assigned.num_rows not in (None, pool_size):
        raise ConfigError(
            f"{assigned.source} has {assigned.num_rows} rows, but {pool}; write a row for each, in their "
            "order, with an empty client for those that nobody holds, or a column example",
            ("split", "path"),
        )
    # Positions are ascending: each client's last one is its largest.
    last = max(int(held[-1]) for held in assigned.held_K)
    if last >= pool_size:
        raise ConfigError(
            f"{assigned.source} has an example {last}, but {pool}, 0 to {pool_size - 1}; take another file "
            "or data set",
            ("split", "path"),
        )
