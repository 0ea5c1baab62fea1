"""What attackers and moving clients hold in place of what they would otherwise, and what the records say.

Shapes: K clients, L classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.clients.messages import ClientData, Moved
from fedgrid.engine.federation.data.images import HeldImages
from fedgrid.engine.federation.disturbances.drift import Drift
from fedgrid.engine.federation.disturbances.faults import Faults, flipped, noisy
from fedgrid.engine.federation.seeds import generator

Sets = tuple[HeldImages, HeldImages]
"""A client's training and test images."""


def client_data(
    sets_K: Sequence[Sets],
    new_sets: Sequence[Sets],
    drift: Drift,
    faults: Faults,
    num_classes: int,
    seed: int,
    *,
    sends: bool = True,
) -> tuple[ClientData, ...]:
    """Return what the clients of a run are given.

    Args:
        sets_K: their images at the start.
        new_sets: the images of those that move, in the order of `drift`.
        drift: who moves, when and where to.
        faults: who attacks, and how.
        num_classes: L, of the whole data set.
        seed: the run's root seed, for noisy labels.
        sends: whether clients send their updates at all; if not, there is nothing to multiply.
    """
    new = dict(zip(drift, new_sets, strict=True))

    def trained_on(client: int, train: HeldImages) -> HeldImages:
        if client in faults.label_noise:
            rng = generator(seed, "label noise", client=client)
            train = noisy(train, num_classes, faults.label_noise[client], rng)
        return flipped(train, num_classes) if client in faults.label_flip else train

    def after_move(client: int) -> Moved:
        train, test = new[client]
        return Moved(drift[client].round - 1, drift[client].to, trained_on(client, train), test)

    return tuple(
        ClientData(
            client,
            trained_on(client, train),
            test,
            after_move(client) if client in drift else None,
            faults.factor(client) if sends else 1.0,
            faults.name(client),
        )
        for client, (train, test) in enumerate(sets_K)
    )


@dataclass(frozen=True)
class Changes:
    """The clients of a run that are not as ordinary ones are."""

    moved: Mapping[int, Moved] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    """Attacker -> what it does."""

    @classmethod
    def of(cls, clients: Sequence[ClientData]) -> "Changes":
        """Return those among the clients of a run."""
        return cls(
            {data.client: data.moved for data in clients if data.moved is not None},
            {data.client: data.fault for data in clients if data.fault},
        )

    def truth(self, truth_K: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Return the hidden groups in a round, shape (K,); `truth_K` are those of the start."""
        now_K = truth_K.copy()
        for client, moved in self.moved.items():
            if round_index >= moved.round_index:
                now_K[client] = moved.group
        return now_K

    def begins(self, round_index: int) -> bool:
        """Return whether a client moves in this round."""
        return any(moved.round_index == round_index for moved in self.moved.values())

    def note(self, rows: Sequence[dict[str, Any]], round_index: int) -> None:
        """Put into the rows of `clients.parquet` of a round what moved clients hold now, and who attacks."""
        for row in rows:
            moved = self.moved.get(row["client"])
            if moved is not None and round_index >= moved.round_index:
                row["true_cluster"] = moved.group
                row["train_images"], row["test_images"] = len(moved.train), len(moved.test)
            if self.faults:
                row["fault"] = self.faults.get(row["client"])
