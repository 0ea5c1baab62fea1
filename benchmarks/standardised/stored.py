"""The first rounds of a federation, stored: distances of the updates as they are, and standardised.

Shapes: R rounds, K clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import group_shared_prefixes
from benchmarks.standardised.few_classes import with_dataset
from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.contract.updates import Updates
from fedgrid.engine.configuration.complete import complete
from fedgrid.engine.run_setup import prepare

Distances = NDArray[np.float64]
KINDS = ("as they are", "standardised")


@dataclass(frozen=True)
class Rounds:
    """What a server sees of the first rounds of plain averaging."""

    truth_K: NDArray[np.int64]
    """The hidden groups."""
    distances_RKK: Mapping[str, Distances]
    """1 - cosine of the updates of each round, for each of `KINDS`."""
    prefix: group_shared_prefixes.SharedPrefix
    """The same rounds, in the form in which `decisions` takes them."""


class Recorder(group_shared_prefixes.Recorder):
    """Plain averaging that keeps both kinds of distances, too."""

    def __init__(self) -> None:
        super().__init__()
        self.distances: list[tuple[Distances, Distances]] = []

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Note what a clusterer would see."""
        self.distances.append((updates.cosine_distances_KK, updates.standardised_distances_KK))
        return super().recluster(state, round_index, updates, rng)


def rounds_of(given: Mapping[str, Any], num_rounds: int, folder: Path, data_dir: Path) -> Rounds:
    """Return the first rounds of a run with these settings; train them if the folder does not have them."""
    config = complete(with_dataset(given, folder, data_dir), data_dir)
    path = folder / f"{sha256(f'{config.canonical_json()} {num_rounds}'.encode()).hexdigest()[:16]}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        setup, truth_K = prepare(config, data_dir)
        recorder = Recorder()
        seen = group_shared_prefixes.train(config, setup, truth_K, num_rounds, data_dir, recorder)
        arrays = {
            "truth": truth_K,
            "gram": np.array([gram_KK for _, gram_KK in seen]),
            "distances": np.array(recorder.distances),
        }
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, **arrays)
        part.rename(path)
    with np.load(path) as kept:
        truth_K, distances_R2KK = kept["truth"], kept["distances"]
        everyone = tuple(range(len(truth_K)))
        prefix = group_shared_prefixes.SharedPrefix(
            truth_K, config.root_seed, [(everyone, gram_KK) for gram_KK in kept["gram"]]
        )
    return Rounds(truth_K, {kind: distances_R2KK[:, at] for at, kind in enumerate(KINDS)}, prefix)
