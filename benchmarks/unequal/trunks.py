"""The first rounds of plain averaging of a federation, stored as Gram matrices, one file each.

Shapes: R rounds, K clients.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.group_shared_prefixes import SharedPrefix, train
from benchmarks.unequal.edits import Edit
from benchmarks.unequal.families import EVERY, Kind
from fedgrid.engine.clients.messages import Setup
from fedgrid.engine.configuration.complete import complete
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.run_setup import prepare

DATA = Path("data")
"""Digits come with scikit-learn: nothing is read there."""
EDITS = 7
"""The random numbers of the edits are apart from those of the run."""


@dataclass(frozen=True)
class Trunk:
    """The rounds of a federation before any clustering."""

    kind: str
    """A key of `EVERY`."""
    seed: int
    """The seed that the user gives; `root_seed` is what the run draws from."""
    root_seed: int
    gram_RKK: NDArray[np.float64]
    """Inner products of the clients' updates in each round."""
    truth_K: NDArray[np.int64]
    """The hidden groups."""
    images_K: NDArray[np.int64]
    """Training images of each client."""

    @property
    def num_groups(self) -> int:
        """Number of hidden groups."""
        return len(set(self.truth_K.tolist()))

    @property
    def has_groups(self) -> bool:
        """Whether there is something to find: a majority share of 0.1 has hidden groups by name only."""
        return EVERY[self.kind].family != "none"

    def as_prefix(self, rounds: int) -> SharedPrefix:
        """Return the first rounds in the form in which `decisions` takes them."""
        everyone = tuple(range(len(self.truth_K)))
        return SharedPrefix(
            self.truth_K, self.root_seed, [(everyone, gram) for gram in self.gram_RKK[:rounds]]
        )


def path_of(folder: Path, name: str, seed: int) -> Path:
    """Return the file of a federation."""
    return folder / f"{re.sub('[^a-zA-Z0-9]+', '-', name).strip('-')}-{seed}.npz"


def store(folder: Path, name: str, seed: int, rounds: int) -> None:
    """Train a federation and write its file, if there is none yet."""
    path = path_of(folder, name, seed)
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    trunk = trained(name, EVERY[name], seed, rounds)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(
            file,
            gram=trunk.gram_RKK,
            truth=trunk.truth_K,
            images=trunk.images_K,
            root_seed=np.array(str(trunk.root_seed)),
        )
    part.rename(path)


def load(folder: Path, name: str, seed: int) -> Trunk:
    """Return a stored federation."""
    with np.load(path_of(folder, name, seed)) as held:
        return Trunk(name, seed, int(held["root_seed"].item()), held["gram"], held["truth"], held["images"])


def trained(name: str, kind: Kind, seed: int, rounds: int) -> Trunk:
    """Return the first rounds of a federation, trained in this process."""
    given = {
        "dataset": "digits",
        "clients": kind.clients,
        "split": dict(kind.split),
        "training": dict(kind.training),
        "algorithm": "fedavg",
        "seed": seed,
    }
    config = complete(given, DATA)
    setup, truth_K = prepare(config, DATA)
    if kind.edit is not None:
        setup, truth_K = edited(setup, truth_K, kind.edit, seed)
    seen = train(config, setup, truth_K, rounds, DATA)
    images_K = np.array([len(client.train) for client in setup.clients], np.int64)
    gram_RKK = np.array([gram_KK for _, gram_KK in seen[:rounds]], np.float64)
    return Trunk(name, seed, config.root_seed, gram_RKK, np.asarray(truth_K, np.int64), images_K)


def edited(
    setup: Setup, truth_K: NDArray[np.int64], edit: Edit, seed: int
) -> tuple[Setup, NDArray[np.int64]]:
    """Return the setup with changed training images, and the hidden groups that they make."""
    held_K = [(client.train.images.copy(), client.train.labels.copy()) for client in setup.clients]
    changed_K, groups_K = edit(np.random.default_rng([seed, EDITS]), held_K, truth_K)
    clients = tuple(
        replace(client, train=ImageSet(np.ascontiguousarray(images), labels))
        for client, (images, labels) in zip(setup.clients, changed_K, strict=True)
    )
    return replace(setup, clients=clients), groups_K


def stored(folder: Path, names: Sequence[str], seeds: Sequence[int]) -> list[Trunk]:
    """Return those of these federations that are stored, by kind and then by seed."""
    return [
        load(folder, name, seed) for name in names for seed in seeds if path_of(folder, name, seed).exists()
    ]
