"""Samples: which images of a run are explained, and by whose model.

Each client draws its images independently of any algorithm, so that all algorithms of a scenario and seed
explain the same ones, each with the model that it serves the client. Images of others are the first of one
seeded order over all other clients' test images that belong to no member of the client's cluster, so that
they differ between algorithms where the clusters do. As published nothing is paired except the server's
images: each cluster of each run draws its own.

Shapes: N images, K clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import Labels
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.grids.explain.compute.settings import ExplanationSettings

SERVER = -1
"""Holder of the server's images."""


@dataclass(frozen=True)
class Sample:
    """The images that one model explains."""

    client: int
    """Client whose model it is; as published, the first of its cluster."""
    cluster: int
    holder_N: NDArray[np.int64]
    """Client that is tested with each image, `SERVER` for those of the server."""
    place_N: NDArray[np.int64]
    """Its place among the test images of its holder."""
    trained_on_N: NDArray[np.bool_]
    """Whether a client of the cluster trains on it."""


@dataclass(frozen=True)
class SampleSource:
    """What samples are drawn from."""

    partition: Partition
    labels_K: Labels
    """Cluster of each client."""
    server_images: int
    """Number of the server's test images."""
    seed: int
    """Root seed of the run."""
    run_id: str = ""
    """Id of the run, which makes its draws its own, as published."""


def draw_samples(settings: ExplanationSettings, source: SampleSource) -> list[Sample]:
    """Draw the samples of a run: of each client, or as published of each cluster.

    A client has no images of others if all clients are in its cluster. A cluster may have fewer images than
    `settings.images`.

    Raises:
        ConfigError: A client has fewer images than `settings.images`.
    """
    if settings.as_published:
        firsts = np.unique(source.labels_K, return_index=True)[1]
        drawn = [_draw_cluster_sample(settings, source, int(client)) for client in firsts]
    else:
        drawn = [
            _draw_client_sample(settings, source, client) for client in range(source.partition.num_clients)
        ]
    return [sample for sample in drawn if sample is not None]


def _draw_client_sample(settings: ExplanationSettings, source: SampleSource, client: int) -> Sample | None:
    """Draw the sample of a client; None if there are no images of others."""
    test_K = source.partition.test_K
    if settings.on == "server":
        rng = make_generator(source.seed, "explained server images", client=client)
        candidates = _list_images([SERVER], [source.server_images])
    elif settings.on == "members":
        rng = make_generator(source.seed, "explained images", client=client)
        candidates = _list_images([client], [len(test_K[client])])
    else:
        rng = make_generator(source.seed, "explained images of others", client=client)
        others = [other for other in range(len(test_K)) if other != client]
        candidates = _list_images(others, [len(test_K[other]) for other in others])
    # The order is drawn before the cluster's images are removed: the draw is the same for every algorithm.
    candidates = candidates[:, rng.permutation(candidates.shape[1])]
    if settings.on == "others":
        candidates = candidates[:, source.labels_K[candidates[0]] != source.labels_K[client]]
        if not candidates.shape[1]:
            return None
    count, available = settings.images, candidates.shape[1]
    if count > available:
        raise ConfigError(
            f"images={count}: client {client} has {available} images of {settings.on}; take at most "
            f"{available}"
        )
    return _build_sample(source, client, candidates[:, :count])


def _draw_cluster_sample(settings: ExplanationSettings, source: SampleSource, client: int) -> Sample | None:
    """Draw the sample of a cluster, as published; None if there are no images of others."""
    cluster = int(source.labels_K[client])
    inside_K = source.labels_K == cluster
    if settings.on == "server":
        rng = make_generator(source.seed, "explained server images")
        candidates = _list_images([SERVER], [source.server_images])
    else:
        # The id of the run is part of the seed: as published each run draws images of its own.
        rng = make_generator(
            source.seed, f"explained images of {settings.on} of {source.run_id}", client=cluster
        )
        chosen = inside_K if settings.on == "members" else ~inside_K
        holders = np.flatnonzero(chosen).tolist()
        if not holders:
            return None
        candidates = _list_images(holders, [len(source.partition.test_K[holder]) for holder in holders])
    candidates = candidates[:, rng.permutation(candidates.shape[1])]
    return _build_sample(source, client, candidates[:, : settings.images])


def _build_sample(source: SampleSource, client: int, chosen: NDArray[np.int64]) -> Sample:
    """Build the sample of a client's model; `chosen` are holders and places, shape (2, N)."""
    holder_N, place_N = chosen
    cluster = int(source.labels_K[client])
    members = np.flatnonzero(source.labels_K == cluster)
    # The members' training images, as the cluster's model has seen all of them.
    trained = np.unique(np.concatenate([source.partition.train_K[member] for member in members.tolist()]))
    seen_N = np.array(
        [
            (position := find_position(source.partition, holder, place)) is not None
            and bool(np.isin(position, trained))
            for holder, place in zip(holder_N.tolist(), place_N.tolist(), strict=True)
        ]
    )
    return Sample(client, cluster, holder_N, place_N, seen_N)


def find_position(partition: Partition, holder: int, place: int) -> int | None:
    """Find an image's position in the pool of training images; None for an official test image."""
    if holder == SERVER or partition.is_official:
        return None
    return int(partition.test_K[holder][place])


def _list_images(holders: Sequence[int], counts: Sequence[int]) -> Positions:
    """List holder and place of all images of several holders, shape (2, N)."""
    return np.concatenate(
        [
            np.stack([np.full(count, holder), np.arange(count)])
            for holder, count in zip(holders, counts, strict=True)
        ],
        axis=1,
    )
