"""Count the images that clients train and test on, and note what may surprise about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data import image_folders
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.images import ImageSet, Pair, Subjects
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.dealing.kinds import find_changes, find_kind
from fedgrid.engine.federation.dealing.split import compute_mean_share
from fedgrid.engine.federation.partition.label_skew import count_labels_per_client
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS, Scenario, compute_class_sets
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.data.partition_files import add_partition_facts
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm

COPIES_ADVICE = "remove the copies, or name whom rows are about, #subject=COLUMN of a table"


@dataclass(frozen=True)
class ImageCounts:
    """Expected number of images of all clients of a run together, and of the server."""

    train: float
    test: float
    server: int
    different_tests: float | None = None
    """Expected images of the clients' different test sets; default None: as `test`, each client has its own.
    """


def estimate_images(config: RunConfig, dataset: Dataset) -> ImageCounts:
    """Estimate how many images a run has, assuming classes of equal size.

    With N images in a class, d draws that hit the class with probability p give N (1 - (1 - p / N)^d)
    different images.

    Raises:
        ConfigError: if the data set is too small for the split.
    """
    split = config.split
    scenario = config.split_scenario
    client_images = find_kind(split.kind).expected_images(
        scenario, add_partition_facts(dataset, split), split, config.seed
    )
    client_images *= compute_mean_share(split.quantity)
    # The size is unknown until the data set is here; a fifth of the pool is usual.
    official = dataset.pool_size // 5 if dataset.test_size is None else dataset.test_size
    server = split.server_images or official
    if split.tested_on == "official" and split.scored_on == "test":
        sets = list(_estimate_official_shares(config, scenario, dataset))
        tests, different = (official * sum(shares) for shares in zip(*sets, strict=True))
        return ImageCounts(client_images, tests, server, different)
    if split.scored_on == "validation":
        client_images *= 1 - split.test_share
    return ImageCounts(client_images * (1 - split.test_share), client_images * split.test_share, server)


def count_images_trained(config: RunConfig, images: ImageCounts) -> float:
    """Count the images that pass through the models of all clients as they train in a round."""
    training = config.training
    if training.local_steps is None:
        return training.local_epochs * images.train
    # A client with fewer images than a batch has smaller batches.
    return training.local_steps * min(config.clients * training.batch_size, images.train)


def find_image_notes(name: str, images: Pair, data_dir: Path) -> list[str]:
    """Describe in one line each what may surprise about the user's own images; nothing for other data sets.

    Args:
        name: the data set.
        images: its pool and the server's test set.
        data_dir: where data sets are.
    """
    dataset = find_dataset(name, data_dir)
    kind, colon, _ = dataset.name.partition(":")
    if not colon:
        return []
    file_notes = image_folders.write_notes(Path(dataset.location)) if kind == "folder" else []
    pool, test = images
    notes = [*file_notes, *dataset.notes, *own_images.describe_odd_images(dataset.name, pool.images)]
    pool_digests = set(_hash_examples(pool))
    if repeated := sum(digest in pool_digests for digest in _hash_examples(test)):
        notes.append(
            f"{repeated} of {len(test)} examples of the server's test set of {dataset.name} are also in the "
            f"pool, value for value; {COPIES_ADVICE}"
        )
    return notes


def number_repeats(name: str, pool: ImageSet) -> NDArray[np.int64] | None:
    """Number the examples of the user's own pool so that equal ones have equal numbers.

    Returns:
        The numbers, shape (N,); None if all examples differ, or for a data set of fedgrid's.
    """
    if ":" not in name:
        return None
    numbers: dict[int, int] = {}
    repeats_N = np.array(
        [numbers.setdefault(digest, len(numbers)) for digest in _hash_examples(pool)], np.int64
    )
    return repeats_N if len(numbers) < len(pool) else None


def find_split_notes(
    run: RunConfig,
    repeats_N: NDArray[np.int64] | None,
    subjects_N: Subjects | None,
    partition: Partition,
) -> list[str]:
    """Describe in one line each what clients are tested on although clients train on it.

    Args:
        run: the run, for its name.
        repeats_N: numbers as of `number_repeats`.
        subjects_N: subject of each example of the pool; None if the data have no subjects.
        partition: the split's training and test examples.
    """
    notes: list[str] = []
    if partition.is_official:
        return notes
    trained, tested = np.concatenate(partition.train_K), np.concatenate(partition.test_K)
    if repeats_N is not None:
        copies = np.isin(repeats_N[tested], repeats_N[trained]).sum()
        if copies:
            notes.append(
                f"{run.scenario}, seed {run.seed}: {copies} of {len(tested)} examples that clients are "
                f"tested on are also trained on, value for value; {COPIES_ADVICE}"
            )
    if subjects_N is not None and (both := np.intersect1d(subjects_N[tested], subjects_N[trained])).size:
        notes.append(
            f"{run.scenario}, seed {run.seed}: {len(both)} of {len(np.unique(subjects_N))} subjects are both "
            "trained and tested on, as the split's file says"
        )
    return notes


def _hash_examples(images: ImageSet) -> Iterator[int]:
    """Hash each example with its label."""
    return (
        hash((example.tobytes(), label))
        for example, label in zip(images.images, images.labels.tolist(), strict=True)
    )


def find_group_notes(runs: Sequence[RunConfig], data_dir: Path) -> list[str]:
    """Describe in one line each where a run has fewer clients than its data set has groups."""
    notes = []
    for run in {(run.dataset, run.clients): run for run in runs if run.split.kind == NATURAL}.values():
        total = find_dataset(run.dataset, data_dir).num_groups or 0
        if total > run.clients:
            notes.append(
                f"{run.scenario}: {run.clients} of {total} groups take part, a client each, by the seed; "
                f"the images of the other {total - run.clients} are left out; take clients: {total} for all"
            )
    return notes


def count_test_passes(config: RunConfig, images: ImageCounts, rounds: int, actors: int = 1) -> float:
    """Count the images that pass through models in the tests of the last `rounds` rounds of a run.

    Every local model is tested on its client's test set and, with `evaluation.local_server`, on the server's
    set; in round 1 the initial model is tested there instead, once in each of the `actors`. The served models
    are tested on the server's set once each; on the clients' sets once for all clients of an actor that have
    the set and the model in common. As many clusters as hidden groups are assumed, each in one of them, from
    the first round in which the algorithm can have any.

    Args:
        config: the run.
        images: its expected images.
        rounds: number of rounds left.
        actors: number of client actors; default 1.
    """
    evaluation, last = config.evaluation, config.training.rounds
    sampled_share = config.participation * (1 - config.dropout)
    # Clients of one actor that share a test set and a model are tested once.
    different = (
        images.test if images.different_tests is None else min(images.test, actors * images.different_tests)
    )
    # Until this round there is a single model.
    first_clusters = build_algorithm(config).start_order_key()[0]
    total = 0.0
    for number in range(last - rounds + 1, last + 1):
        # The last round is always tested.
        if number % evaluation.every and number != last:
            continue
        local_server = min(actors, config.clients) if number == 1 else sampled_share * config.clients
        if not evaluation.local_server or (evaluation.local_server == "last" and number != last):
            local_server = 0
        models = config.split.num_clusters if number >= first_clusters else 1
        total += sampled_share * images.test + local_server * images.server
        total += different * (config.participation if evaluation.clients == "asked" else 1)
        total += models * images.server
    return total


def _estimate_official_shares(
    config: RunConfig, scenario: Scenario, dataset: Dataset
) -> Iterator[tuple[float, float]]:
    """Estimate the clients' shares of the official test set, for each group of clients.

    Yields:
        The share that the group's members have together, and the share of their different sets; the largest
            possible, if the labels of a client are drawn.
    """
    clients, split = config.clients, config.split
    if split.kind == NATURAL:
        num_groups = dataset.num_groups or 1
        yield clients / num_groups, min(clients, num_groups) / num_groups
    elif split.kind in PUBLISHED_SPLITS:
        groups_K = find_kind(split.kind).list_groups(scenario, split)
        for group, labels in enumerate(
            compute_class_sets(dataset.num_classes, split.num_clusters, scenario.overlap)
        ):
            share = len(labels) / dataset.num_classes
            yield groups_K.count(group) * share, share
    elif changes := find_changes(split, clients, dataset.num_classes):
        yield float(clients), float(changes.number)
    elif split.num_clusters == 1:
        yield float(clients), 1.0
    elif split.kind == "label-skew":
        owned = count_labels_per_client(dataset.num_classes, split.labels_share) / dataset.num_classes
        yield clients * owned, clients * owned
    else:
        yield float(clients), float(clients)
