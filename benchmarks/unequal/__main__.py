"""The study of groups of unequal sizes.

    OMP_NUM_THREADS=1 python -m benchmarks.unequal trunks FOLDER --seeds 500..507     # trains what is missing
    OMP_NUM_THREADS=1 python -m benchmarks.unequal study FOLDER --seeds 500..507
    OMP_NUM_THREADS=1 python -m benchmarks.unequal played FOLDER --seeds 500..507

The table of docs/our-algorithm.md, of groups of unequal sizes:

    python -m benchmarks.unequal trunks OTHER --rounds 8 --seeds 300..304 --only unequal
    python -m benchmarks.unequal study OTHER --waited 8 --seeds 300..304 --only unequal

`trunks` writes a file a federation and can be stopped at any time.
"""

import argparse
import time
from pathlib import Path

from benchmarks.unequal.families import EVERY, KINDS
from benchmarks.unequal.played import print_played
from benchmarks.unequal.study import print_cut_up, print_families, print_silhouettes
from benchmarks.unequal.trunks import store, stored


def main() -> None:
    """Do one of the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=("trunks", "study", "played"))
    parser.add_argument("folder", type=Path, help="Where the stored rounds are.")
    parser.add_argument("--seeds", default="500..507")
    parser.add_argument(
        "--only", action="append", help="A family, or a part of a kind's name; may be repeated."
    )
    parser.add_argument("--rounds", type=int, default=5, help="Rounds to train.")
    parser.add_argument(
        "--waited", type=int, default=4, help="Rounds within which algorithms have to decide."
    )
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    names = [
        name
        for name, kind in (EVERY if given.only else KINDS).items()
        if any(part in name or part == kind.family for part in given.only or [""])
    ]
    if given.step == "trunks":
        for seed in seeds:
            for name in names:
                store(given.folder, name, seed, given.rounds)
            print(f"seed {seed}: {time.process_time():.0f} s of a core", flush=True)
    elif given.step == "played":
        print_played(stored(given.folder, names, seeds), given.waited)
    else:
        trunks = stored(given.folder, names, seeds)
        print_families(trunks, given.waited)
        print()
        print_cut_up(trunks, given.waited)
        print()
        print_silhouettes(trunks)


if __name__ == "__main__":
    main()
