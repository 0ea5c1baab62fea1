"""Compute how much the round cache would save for the paper's 280 runs, from the published tables.

    python -m benchmarks.paper_scale

Nothing is trained. Tables 1 and 2 of OCFL (arXiv:2509.01587), with its authors' archive, show in which round
a run leaves the shared prefix: the rounds that it shares with plain federated averaging (BNC). That is
computed once per scenario; a run that leaves it in round r of R computes the rounds r..R itself. The first
run that leaves in round r also stores the plain mean (`grids.planning.start_order`). For other runs that
leave in this round the cache has the similarities but no means over their clusters, so that the clients are
trained again. Pitfalls:

- A run that scores 0 in all three columns of Table 1 has one cluster to the end and never leaves it,
  whatever Table 2 says (there, a renamed cluster counts as a change).
- For SCL Table 2 has the last of many splits; the first is in round 22 in all 16 runs that split.
- The seeds of the published runs differ: the rounds of one scenario's OCFL runs differ by one or two, whereas
  ours see the same temperature and are equal. Used as they are, they share less than ours.
- The tables have no partitions, but a score of 1 in every round from Table 2's on means the hidden groups.
  Two such runs that leave in the same round are equal from there on. The true need lies between sharing
  nothing after leaving (`apart`) and sharing these (`shared`); equal wrong partitions would share more.

Disk: a computed round stores one mean update, as large as the model, per cluster. The tables do not have the
number of clusters: the 3 hidden groups are assumed (the archive's runs end with 2 to 13 clusters), or one
cluster per client if a run has homogeneity 1 and ARI 0 (BCL on ResNets). The size of statistics per client
is the one that `benchmarks.round_cache` measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.models.flat_vectors import build_blank, read_layout
from fedgrid.tracking.papers.ocfl.numbers import read_clustering, round_as_published
from fedgrid.tracking.scoring.partitions import PUBLISHED_ROUNDS, PublishedClustering
from fedgrid.tracking.scoring.run import Scenario

ENTRY_BYTES = 4
"""Bytes of an entry of a state, a float32."""
STATISTICS_BYTES = 1600
"""Bytes per client and round apart from states: reports, tests and products."""
CACHE_LIMIT = 200e9
"""Bytes: the assumed `--cache-limit`."""
GROUPS = 3
SATTLER_SPLITS = 22


@dataclass(frozen=True)
class Branch:
    """The rounds of a run after it has left the shared prefix."""

    algorithm: str
    start: int
    """The first round, from 1, that differs from BNC's."""
    clusters: int
    is_exact: bool
    """Whether its clusters equal the hidden groups from this round on."""


def find_branch(algorithm: str, clients: int, scores: PublishedClustering) -> Branch | None:
    """Find the branch of a published run, None if it never leaves the shared prefix."""
    if scores.published_rand == scores.published_ami == scores.published_com == 0:
        return None
    start = SATTLER_SPLITS if algorithm == "SCL" else scores.published_round
    # Scores are means over all rounds: 1 from `start` on, and 0 before, has this mean in the printed digits.
    all_rounds = round_as_published((PUBLISHED_ROUNDS + 1 - start) / PUBLISHED_ROUNDS)
    is_singletons = scores.published_rand == 0 and scores.published_com == all_rounds
    return Branch(algorithm, start, clients if is_singletons else GROUPS, scores.published_rand == all_rounds)


def merge_equal_branches(branches: Iterable[Branch]) -> list[Branch]:
    """Merge branches that are equal, as exact ones from the same round are."""
    # Exact branches of a start have the hidden groups from there on, so that all their rounds are equal.
    return list({f"{each.start}" if each.is_exact else each.algorithm: each for each in branches}.values())


@dataclass(frozen=True)
class Need:
    """Rounds and bytes of the runs of one or more scenarios."""

    requested: int = 0
    """Rounds of all runs."""
    apart: int = 0
    """Rounds to compute if nothing is shared once a run has left the shared prefix."""
    shared: int = 0
    """Rounds to compute if runs whose partitions are known to be equal share them."""
    shared_prefix_bytes: int = 0
    """States of the shared prefix."""
    alone_bytes: int = 0
    """States of the branches with one cluster per client."""
    other_bytes: int = 0
    """States of the other branches; equal partitions share them."""
    statistics_bytes: int = 0
    """Statistics of all computed rounds."""

    @property
    def state_bytes(self) -> int:
        """Bytes of all states."""
        return self.shared_prefix_bytes + self.alone_bytes + self.other_bytes

    def __add__(self, other: "Need") -> "Need":
        return Need(**{name: value + getattr(other, name) for name, value in vars(self).items()})


def compute_need(rounds: int, clients: int, model_bytes: int, runs: int, branches: Iterable[Branch]) -> Need:
    """Compute the need of one scenario.

    Args:
        rounds: rounds of each run.
        clients: clients of the scenario.
        model_bytes: size of a model's state.
        runs: number of the scenario's runs, one of them BNC's.
        branches: those runs that leave the shared prefix.
    """
    lengths = {each: rounds + 1 - each.start for each in branches}
    # The first run that leaves the shared prefix in a round computes that round for it, too.
    shared_prefix = rounds - len({each.start for each in lengths})
    distinct = merge_equal_branches(lengths)
    shared = shared_prefix + sum(lengths[each] for each in distinct)
    states = {each: lengths[each] * each.clusters * model_bytes for each in distinct}
    alone = sum(size for each, size in states.items() if each.clusters > GROUPS)
    return Need(
        requested=runs * rounds,
        apart=shared_prefix + sum(lengths.values()),
        shared=shared,
        shared_prefix_bytes=rounds * model_bytes,
        alone_bytes=alone,
        other_bytes=sum(states.values()) - alone,
        statistics_bytes=shared * clients * STATISTICS_BYTES,
    )


def compute_published_needs() -> Mapping[Scenario, Need]:
    """Compute the need of the published runs of each scenario."""
    runs: dict[Scenario, dict[str, PublishedClustering]] = {}
    for (scenario, algorithm), scores in read_clustering().items():
        runs.setdefault(scenario, {})[algorithm] = scores
    sizes = {name: count_entries(name) for name in {scenario[0] for scenario in runs}}
    needs = {}
    for scenario, by_algorithm in runs.items():
        dataset, clients = scenario[:2]
        branches = (find_branch(name, clients, scores) for name, scores in by_algorithm.items())
        rounds = DATASETS[dataset].training.rounds
        needs[scenario] = compute_need(
            rounds, clients, ENTRY_BYTES * sizes[dataset], len(by_algorithm), filter(None, branches)
        )
    return needs


def count_entries(dataset: str) -> int:
    """Count the entries of the state of a data set's own model."""
    about = DATASETS[dataset]
    return read_layout(build_blank(about.model, about.inputs, about.num_classes)).size


def main() -> None:
    """Print one row per data set, their total, and the size on disk."""
    needs = compute_published_needs()
    by_dataset: dict[str, list[Need]] = {}
    for (dataset, *_), each in needs.items():
        by_dataset.setdefault(dataset, []).append(each)
    total = sum(needs.values(), Need())
    largest = max(each.state_bytes for each in needs.values())
    table = Table("", "requested", "apart", "", "shared", "", "prefix", "alone", "other", "largest", box=None)
    print("Rounds requested and computed; GB of states, and those of the largest scenario")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, members in {**by_dataset, "all": list(needs.values())}.items():
        each = sum(members, Need())
        sizes = (each.shared_prefix_bytes, each.alone_bytes, each.other_bytes)
        table.add_row(
            *(name, f"{each.requested:,}"),
            *(f"{each.apart:,}", f"{each.apart / each.requested:.0%}"),
            *(f"{each.shared:,}", f"{each.shared / each.requested:.0%}"),
            *map(format_gigabytes, sizes),
            format_gigabytes(max(member.state_bytes for member in members)),
        )
    Console(width=110).print(table)
    print(
        f"Of {total.requested:,} rounds {total.shared:,} to {total.apart:,} are computed, "
        f"{total.shared / total.requested:.0%} to {total.apart / total.requested:.0%} "
        f"(ResNet-34 has {count_entries('cifar10'):,} entries).\n"
        f"All states take {format_gigabytes(total.state_bytes)} GB, "
        f"those of a scenario at most {format_gigabytes(largest)} GB, deleted with its last run; "
        f"statistics, which stay, {format_gigabytes(total.statistics_bytes)} GB.\n"
        f"All shared prefixes together, {format_gigabytes(total.shared_prefix_bytes)} GB, "
        f"{'fits' if total.shared_prefix_bytes < CACHE_LIMIT else 'does not fit'} into "
        f"{format_gigabytes(CACHE_LIMIT)} GB."
    )


def format_gigabytes(size: float) -> str:
    """Format bytes in 10^9, to three digits."""
    billions = size / 1e9
    return f"{billions:,.0f}" if billions >= 10 else f"{billions:.1f}"


if __name__ == "__main__":
    main()
