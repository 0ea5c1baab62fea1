"""A kind of split: clients of two hidden groups, who hold mostly the first and mostly the last classes."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedgrid import ImagePool, OwnSplit


class LongTails(OwnSplit):
    """Each class is cut among all clients, by the same shares within a group."""

    name: Literal["long-tails"] = "long-tails"
    ratio: Annotated[float, Field(gt=0)] = 1.5
    """Ratio of a class's share to the next one's; 1: all clients are alike."""

    def deal(
        self, pool: ImagePool, num_clients: int, rng: np.random.Generator
    ) -> tuple[Sequence[int], Sequence[np.ndarray]]:
        """Deal the images: each client's hidden group, from 0, and the positions of its images."""
        groups = [client % 2 for client in range(num_clients)]
        held: list[list[np.ndarray]] = [[] for _ in groups]
        for label, positions in enumerate(pool.positions_L):
            from_middle = label - (len(pool.positions_L) - 1) / 2
            shares = np.array([self.ratio ** (from_middle if group else -from_middle) for group in groups])
            stops = (shares.cumsum() / shares.sum() * len(positions)).astype(int)[:-1]
            for client, part in enumerate(np.split(rng.permutation(positions), stops)):
                held[client].append(part)
        return groups, [np.concatenate(parts) for parts in held]


SPLITS = [LongTails]
