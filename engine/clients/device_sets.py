"""Images and labels on a device, as a worker trains and tests on them."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.clients.messages import ClientData
from fedgrid.engine.data.images import ImageSet


class DeviceSet:
    """Images and labels on a device: one uint8 tensor with channels last, one int64 tensor."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    @classmethod
    def of(cls, held: ImageSet, device: str) -> "DeviceSet":
        """Return a copy of images on a torch device."""
        # `np.array` copies: what comes from shared memory is read-only and may go away.
        images = torch.from_numpy(np.array(held.images.transpose(0, 2, 3, 1), order="C"))
        labels = torch.from_numpy(np.array(held.labels))
        return cls(
            images.to(device, non_blocking=True).permute(0, 3, 1, 2), labels.to(device, non_blocking=True)
        )

    def part(self, where: slice) -> "DeviceSet":
        """Return a view of some of them."""
        return DeviceSet(self.images[where], self.labels[where])


class Holdings:
    """What each client trains on and is tested on; of a client that moves, before and after that."""

    def __init__(self, clients: Sequence[ClientData], device: str) -> None:
        """Put the clients' images on a device. Those with one test set in common share its tensors."""
        movers = [(data.client, data.moved) for data in clients if data.moved is not None]
        self._since = {client: moved.round_index for client, moved in movers}
        self._train = {data.client: DeviceSet.of(data.train, device) for data in clients}
        self._train_later = {client: DeviceSet.of(moved.train, device) for client, moved in movers}
        sets = [data.test for data in clients] + [moved.test for _, moved in movers]
        shared = _shared(sets, device)
        self._test = {data.client: shared[id(data.test)] for data in clients}
        self._test_later = {client: shared[id(moved.test)] for client, moved in movers}

    def train(self, client: int, round_index: int) -> DeviceSet:
        """Return the images that a client trains on in a round, from 0."""
        has_moved = round_index >= self._since.get(client, round_index + 1)
        return (self._train_later if has_moved else self._train)[client]

    def test(self, client: int, round_index: int) -> DeviceSet:
        """Return the images that a client is tested on in a round, from 0."""
        has_moved = round_index >= self._since.get(client, round_index + 1)
        return (self._test_later if has_moved else self._test)[client]


def _shared(held: Iterable[ImageSet], device: str) -> Mapping[int, DeviceSet]:
    """Return the id of each set -> its tensors."""
    put: dict[int, DeviceSet] = {}
    for images in held:
        if id(images) not in put:
            put[id(images)] = DeviceSet.of(images, device)
    return put
