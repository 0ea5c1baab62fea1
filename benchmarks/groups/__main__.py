"""Count the federations whose hidden groups each method finds, and those without groups that it splits.

    OMP_NUM_THREADS=1 python -m benchmarks.groups FOLDER --seeds 500..507                   # development
    OMP_NUM_THREADS=1 python -m benchmarks.groups FOLDER --seeds 1000.. --federations 40 --held-out

Trains what the folder lacks, then prints a row a family (`benchmarks.groups.families`): in how many
federations the clusters of a method are the hidden groups; in a family without groups, how many it cuts up.
All methods decide on the same rounds. *better / worse*: federations in which `evident-groups` is right and
Ward's tree, given the number of groups, is not, and the reverse, with the p of the exact paired test. *at
most*: the upper 95 % limit of the share that `evident-groups` cuts up (Clopper and Pearson, one-sided). *in
round*: the rounds in which it clusters, median and greatest.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import beta, binomtest
from threadpoolctl import threadpool_limits

from benchmarks.groups.decisions import is_same_partition, replay_decisions
from benchmarks.groups.families import DEVELOPMENT, HELD_OUT, JUDGED, Settings, has_groups
from benchmarks.groups.stored import DealingError, SharedPrefix, load_shared_prefix

OURS, WARD, KMEANS = "evident-groups", "Ward, number given", "OCFL-KM, number given"
METHODS: Mapping[str, tuple[str, Callable[[int], Settings]]] = {
    OURS: ("evident-groups", lambda _: {}),
    WARD: ("ward-told", lambda groups: {"num_clusters": groups}),
    KMEANS: ("ocfl-kmeans", lambda groups: {"clusterer": {"num_clusters": groups}}),
    "affinity": ("ocfl-affinity", lambda _: {}),
    "HDBSCAN": ("ocfl-hdbscan", lambda _: {}),
    "BCL, round 3": ("briggs", lambda _: {"round": 3, "threshold": 0.4}),
}
"""Name -> algorithm, and its settings by the number of hidden groups (`METHODS_GIVEN_COUNT`)."""
METHODS_GIVEN_COUNT = (WARD, KMEANS)


@dataclass(frozen=True)
class Outcome:
    """What a method made of one federation, and when."""

    counts: bool
    """Whether it found exactly the groups; without groups, whether it cut the federation up."""
    round: int | None
    """The round in which it clustered."""


def compute_outcomes(
    case: Settings, grouped: bool, rounds: int, folder: Path, data_dir: Path
) -> dict[str, Outcome]:
    """Compute what each method makes of a federation; train it if the folder does not have it.

    Args:
        case: settings of the run.
        grouped: whether the federation has groups to find.
        rounds: rounds of training at least.
        folder: where rounds are stored.
        data_dir: folder with the images of data sets.

    Returns:
        Name of a method -> outcome; nothing if a client gets no image to train on or to be tested on.
    """
    # One federation a process: more threads would compete with the other jobs.
    with threadpool_limits(1):
        try:
            shared_prefix = load_shared_prefix(case, rounds, folder, data_dir)
        except DealingError:
            return {}
        return {
            name: _compute_outcome(shared_prefix, grouped, algorithm, settings)
            for name, (algorithm, settings) in METHODS.items()
            if grouped or name not in METHODS_GIVEN_COUNT
        }


def _compute_outcome(
    shared_prefix: SharedPrefix, grouped: bool, algorithm: str, settings: Callable[[int], Settings]
) -> Outcome:
    """Replay one method on the stored rounds."""
    groups = len(set(shared_prefix.truth_K.tolist()))
    number, labels_K = list(replay_decisions(shared_prefix, algorithm, settings(groups)))[-1]
    several = len(set(labels_K.tolist())) > 1
    counts = is_same_partition(labels_K, shared_prefix.truth_K) if grouped else several
    return Outcome(counts, number if several else None)


def format_row(family: str, outcomes: Sequence[Mapping[str, Outcome]]) -> str:
    """Format a family's row of the table."""
    counts = {name: sum(each[name].counts for each in outcomes) for name in METHODS if name in outcomes[0]}
    compared = (
        compare_methods(outcomes)
        if WARD in outcomes[0]
        else f"at most {compute_upper_limit(counts[OURS], len(outcomes)):.1%}"
    )
    cells = (
        family,
        len(outcomes),
        *(counts.get(name, "–") for name in METHODS),
        compared,
        format_rounds(outcomes),
    )
    return f"| {' | '.join(map(str, cells))} |"


def compare_methods(outcomes: Sequence[Mapping[str, Outcome]]) -> str:
    """Count the federations in which one method alone is right, with the p of the sign test."""
    better = sum(each[OURS].counts > each[WARD].counts for each in outcomes)
    worse = sum(each[OURS].counts < each[WARD].counts for each in outcomes)
    p = binomtest(better, better + worse).pvalue if better + worse else 1.0
    return f"{better} / {worse} ({p:.2g})"


def compute_upper_limit(count: int, total: int) -> float:
    """Compute the upper 95 % limit of a share, counted in `total` federations (Clopper and Pearson)."""
    return 1.0 if count == total else float(beta.ppf(0.95, count + 1, total - count))


def format_rounds(outcomes: Sequence[Mapping[str, Outcome]]) -> str:
    """Format the median and the greatest round in which `evident-groups` clusters."""
    numbers = [number for each in outcomes if (number := each[OURS].round) is not None]
    return f"{np.median(numbers):g}, {max(numbers)}" if numbers else "–"


def print_table(given: argparse.Namespace, executor: Executor) -> None:
    """Print the table, row by row."""
    print(f"| seeds {given.seeds} | federations | {' | '.join(METHODS)} | better / worse (p) | in round |")
    print(f"|{' --- |' * (len(METHODS) + 4)}")
    families = JUDGED if given.judged else HELD_OUT if given.held_out else DEVELOPMENT
    grouped_outcomes: list[Mapping[str, Outcome]] = []
    for family, federations in families.items():
        if given.only in family and not any(part in family for part in given.skip):
            grouped = has_groups(family)
            compute = partial(
                compute_outcomes,
                grouped=grouped,
                rounds=given.rounds,
                folder=given.folder,
                data_dir=given.data,
            )
            # Rounded up: a family has at least as many federations as `--federations`.
            seeds = parse_seeds(given.seeds, -(-given.federations // len(federations)))
            cases = [{**case, "seed": seed} for case, seed in product(federations, seeds)]
            outcomes = [each for each in executor.map(compute, cases) if each]
            grouped_outcomes += outcomes if grouped else []
            print(format_row(family, outcomes), flush=True)
    if grouped_outcomes:
        print(format_row("**all with groups**", grouped_outcomes))


def parse_seeds(text: str, count: int) -> range:
    """Parse `500..507`, `500` alone, or `500..` for `count` seeds from the first on."""
    first, dots, last = text.partition("..")
    end = int(last) + 1 if last else int(first) + (count if dots else 1)
    return range(int(first), end)


def main() -> None:
    """Print a row a family."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="Where the stored rounds are.")
    parser.add_argument("--seeds", default="500..507", help="500..507, or 500.. and --federations.")
    parser.add_argument("--federations", type=int, default=1, help="A family has at least as many.")
    parser.add_argument("--held-out", action="store_true", help="The families that nothing was chosen on.")
    parser.add_argument("--judged", action="store_true", help="The families that judged later rules.")
    parser.add_argument("--only", default="", help="A part of a family's name.")
    parser.add_argument("--skip", action="append", default=[], help="The same; may be repeated.")
    parser.add_argument("--rounds", type=int, default=15, help="With partial participation more.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs) as executor:
        print_table(given, executor)


if __name__ == "__main__":
    main()
