"""Print the list of tasks of an arena, by which two papers' arenas can be compared.

    python -m benchmarks.arena_card [DATASET] [--families A,B]

Arenas with equal cards judge on the same clients, who hold the same images, within the same budgets.
"""

import argparse
import json
from collections.abc import Sequence
from hashlib import sha256

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.run.prepare import find_partition
from fedgrid.grids.arena.definition import VERSION, Arena, load_arena


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the card of a data set's arena."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--families", action="append", default=[])
    given = parser.parse_args(arguments)
    arena = load_arena(None, given.dataset, [], (), 8, default_data_dir(), only=given.families)
    print(format_card(arena), end="")


def format_card(arena: Arena) -> str:
    """Format the card as JSON: version, budgets, and each family with a digest of its partitions by seed.

    Raises:
        DataError: the images cannot be loaded.
    """
    families = {
        family.name: {
            "settings": dict(family.settings),
            "hidden_groups": family.num_groups,
            "partitions": {str(run.seed): hash_partition(run, arena) for run in runs},
        }
        for family, runs in arena.families.items()
    }
    first = next(iter(arena.families.values()))[0]
    card = {
        "arena": VERSION,
        "dataset": arena.dataset_in_files,
        "model": first.model,
        "training": first.training.model_dump(mode="json"),
        "trials": arena.trials,
        "steps_of_fine_tuning": arena.budget,
        "left_out": list(arena.exclusion_notes),
        "families": families,
    }
    return json.dumps(card, indent=1) + "\n"


def hash_partition(run: RunConfig, arena: Arena) -> str:
    """Compute a digest of the images, by position, that each client holds before and after clients move."""
    # Clients that move (`drift`) do so between the first round and the last.
    digest = sha256()
    for round_index in (0, run.training.rounds - 1):
        held = find_partition(run, arena.data_dir, round_index)
        clients = zip(held.group_K, held.train_K, held.test_K, strict=True)
        for client, (group, train, test) in enumerate(clients):
            digest.update(f"{client} {group} {len(train)} {len(test)}\n".encode())
            # Little-endian whatever the machine: cards of two machines are compared.
            digest.update(train.astype("<i8").tobytes() + test.astype("<i8").tobytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    main()
