"""What the round store would save of the paper's 280 runs, worked out from the published tables.

    python -m benchmarks.paper_scale

Nothing is trained. From Tables 1 and 2 follows in which round a run leaves the trunk, the rounds that it
shares with plain federated averaging (BNC). The trunk is computed once a scenario; a run that leaves it in
round r of R computes the rounds r..R itself. The first that leaves in round r leaves the plain mean behind
(`grids.planning.start_order`); for others that leave there the similarities are in the store, but no mean
over their clusters, so the clients train once more. Sources (arXiv:2509.01587, its authors' archive), and
traps in them:

- a run that scores 0 in all three columns of Table 1 has one cluster to the end, whatever Table 2 says (a
  new name for the same cluster counts there): it never leaves the trunk;
- for SCL Table 2 has the last of many splits; the first is in round 22 of all 16 runs that split;
- the seeds were not common: published rounds of one scenario's OCFL runs differ by one or two where ours,
  which see the same temperature, are the same. Taken as they are they share less than ours do;
- the tables give no partitions, but a score of 1 in every round from Table 2's on means the hidden groups.
  Two such runs that act in the same round are one run from there on. What is needed lies between nothing
  shared after leaving and these shared; wrong partitions that happen to be the same would share more.

Disk: a computed round leaves one mean update, as large as the model, for each cluster. The tables do not say
how many clusters there are: counted are the 3 hidden ones (the archive's runs end with 2 to 13), or as many
as clients where a run has homogeneity 1 and an ARI of 0 (BCL on ResNets leaves everybody alone). Statistics
are what `benchmarks.store` saw, by the client.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from fedgrid.engine.data.datasets import DATASETS
from fedgrid.engine.models.flat_vectors import layout_of
from fedgrid.engine.models.initialisation import blank
from fedgrid.tracking.published.numbers import Scenario, clustering, digits_of
from fedgrid.tracking.scoring.partitions import PUBLISHED_ROUNDS, PublishedClustering

GROUPS = 3
SATTLER_SPLITS = 22
BYTES = 4
"""Of an entry of a state, a float32."""
STATISTICS = 1600
"""Bytes of a client and round that are no state: reports, tests and products."""
LIMIT = 200e9
"""Bytes: the `--store-limit` that is looked at."""


@dataclass(frozen=True)
class Branch:
    """How a run leaves the trunk."""

    algorithm: str
    start: int
    """The first round, from 1, that is no longer BNC's."""
    clusters: int
    is_exact: bool
    """Whether its clusters are known to be the hidden groups from the start."""


@dataclass(frozen=True)
class Need:
    """What the runs of one or more scenarios ask for and need."""

    asked: int = 0
    """Rounds of all runs."""
    apart: int = 0
    """Rounds to compute if nothing is shared once a run has left the trunk."""
    shared: int = 0
    """Rounds to compute if runs with the same known partition share them."""
    trunk_bytes: int = 0
    """States of the trunk."""
    alone_bytes: int = 0
    """States of the branches in which every client is alone."""
    other_bytes: int = 0
    """States of the other branches, where partitions that are the same share them."""
    statistics_bytes: int = 0
    """All else, likewise."""

    @property
    def state_bytes(self) -> int:
        """All states."""
        return self.trunk_bytes + self.alone_bytes + self.other_bytes

    def __add__(self, other: "Need") -> "Need":
        return Need(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def branch(algorithm: str, clients: int, scores: PublishedClustering) -> Branch | None:
    """Return how a published run leaves the trunk, None if it never does."""
    if scores.published_rand == scores.published_ami == scores.published_com == 0:
        return None
    start = SATTLER_SPLITS if algorithm == "SCL" else scores.published_round
    whole = digits_of((PUBLISHED_ROUNDS + 1 - start) / PUBLISHED_ROUNDS)
    is_alone = scores.published_rand == 0 and scores.published_com == whole
    return Branch(algorithm, start, clients if is_alone else GROUPS, scores.published_rand == whole)


def need(rounds: int, clients: int, model_bytes: int, runs: int, branches: Iterable[Branch]) -> Need:
    """Return what one scenario's runs of `rounds` rounds need, one of them BNC's."""
    lengths = {each: rounds + 1 - each.start for each in branches}
    trunk = rounds - len({each.start for each in lengths})
    computed = {f"{each.start}" if each.is_exact else each.algorithm: each for each in lengths}.values()
    shared = trunk + sum(lengths[each] for each in computed)
    states = {each: lengths[each] * each.clusters * model_bytes for each in computed}
    alone = sum(size for each, size in states.items() if each.clusters > GROUPS)
    return Need(
        asked=runs * rounds,
        apart=trunk + sum(lengths.values()),
        shared=shared,
        trunk_bytes=rounds * model_bytes,
        alone_bytes=alone,
        other_bytes=sum(states.values()) - alone,
        statistics_bytes=shared * clients * STATISTICS,
    )


def published_needs() -> Mapping[Scenario, Need]:
    """Return what the published runs of each scenario need."""
    runs: dict[Scenario, dict[str, PublishedClustering]] = {}
    for (scenario, algorithm), scores in clustering().items():
        runs.setdefault(scenario, {})[algorithm] = scores
    sizes = {name: model_size(name) for name in {scenario[0] for scenario in runs}}
    needs = {}
    for scenario, by_algorithm in runs.items():
        dataset, clients, _, _ = scenario
        found = (branch(name, clients, scores) for name, scores in by_algorithm.items())
        rounds = DATASETS[dataset].training.rounds
        needs[scenario] = need(
            rounds, clients, BYTES * sizes[dataset], len(by_algorithm), filter(None, found)
        )
    return needs


def model_size(dataset: str) -> int:
    """Return the number of entries of the state of a data set's own model."""
    about = DATASETS[dataset]
    return layout_of(blank(about.model, about.shape, about.num_classes)).size


def main() -> None:
    """Print a row a data set, all of them, and what the disk would see."""
    needs = published_needs()
    by_dataset: dict[str, list[Need]] = {}
    for (dataset, *_), each in needs.items():
        by_dataset.setdefault(dataset, []).append(each)
    total = sum(needs.values(), Need())
    largest = max(each.state_bytes for each in needs.values())
    table = Table("", "asked", "apart", "", "shared", "", "trunk", "alone", "other", "largest", box=None)
    print("Rounds asked and computed; GB of states, and those of the largest scenario")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, members in {**by_dataset, "all": list(needs.values())}.items():
        each = sum(members, Need())
        sizes = (each.trunk_bytes, each.alone_bytes, each.other_bytes)
        table.add_row(
            *(name, f"{each.asked:,}"),
            *(f"{each.apart:,}", f"{each.apart / each.asked:.0%}"),
            *(f"{each.shared:,}", f"{each.shared / each.asked:.0%}"),
            *map(gigabytes, sizes),
            gigabytes(max(member.state_bytes for member in members)),
        )
    Console(width=110).print(table)
    print(
        f"Of {total.asked:,} rounds {total.shared:,} to {total.apart:,} are computed, "
        f"{total.shared / total.asked:.0%} to {total.apart / total.asked:.0%} "
        f"(ResNet-34 has {model_size('cifar10'):,} entries).\n"
        f"All states are {gigabytes(total.state_bytes)} GB, of a scenario at most {gigabytes(largest)} GB, "
        f"which go with its last run; statistics, which stay, {gigabytes(total.statistics_bytes)} GB.\n"
        f"Every trunk together, {gigabytes(total.trunk_bytes)} GB, "
        f"{'fits' if total.trunk_bytes < LIMIT else 'does not fit'} into {gigabytes(LIMIT)} GB."
    )


def gigabytes(size: float) -> str:
    """Return bytes in 10^9, to three digits."""
    billions = size / 1e9
    return f"{billions:,.0f}" if billions >= 10 else f"{billions:.1f}"


if __name__ == "__main__":
    main()
