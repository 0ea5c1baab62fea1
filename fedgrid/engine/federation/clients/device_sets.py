"""Images and labels on a device, as a worker trains and tests on them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from fedgrid.algorithms.contract.orders import ChooseOn
from fedgrid.engine.federation.clients.messages import Setup
from fedgrid.engine.federation.data.images import HeldImages
from fedgrid.engine.federation.seeds import generator

Key = tuple[int, bool]
"""A client, and whether it has moved to another hidden group."""


class DeviceSet:
    """Images and labels on a device: one uint8 tensor with channels last, one int64 tensor."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    @classmethod
    def of(cls, held: HeldImages, device: str) -> "DeviceSet":
        """Return a copy of images on a torch device."""
        # `np.array` copies: what comes from shared memory is read-only and may go away.
        images = torch.from_numpy(np.array(held.images.transpose(0, 2, 3, 1), order="C"))
        labels = torch.from_numpy(np.array(held.labels))
        return cls(
            images.to(device, non_blocking=True).permute(0, 3, 1, 2), labels.to(device, non_blocking=True)
        )

    @contextmanager
    def only_read(self, by: str) -> Iterator[None]:
        """Raise ValueError if `by` writes to them in the block."""
        before = self.images._version, self.labels._version
        yield
        if before != (self.images._version, self.labels._version):
            raise ValueError(f"{by} wrote to the client's images; work on a copy")

    def part(self, where: slice) -> "DeviceSet":
        """Return a view of some of them."""
        return DeviceSet(self.images[where], self.labels[where])


class DeviceSets:
    """Each client's images on a device; clients with the same ones share their tensors.

    On a GPU they are put there once for all. Main memory has them already, so on a CPU only the last set in
    use is kept a second time.
    """

    def __init__(self, held: Mapping[Key, HeldImages], device: str) -> None:
        self._held = _merge(held)
        self._device = device
        self._put: dict[int, DeviceSet] = {}
        if device != "cpu":
            for key in held:
                self.of(key)

    def number(self, key: Key) -> int:
        """Return a number that clients with one set in common share."""
        return id(self._held[key])

    def of(self, key: Key) -> DeviceSet:
        """Return the images that a client holds."""
        images = self._held[key]
        if id(images) not in self._put:
            if self._device == "cpu":
                self._put.clear()
            self._put[id(images)] = DeviceSet.of(images, self._device)
        return self._put[id(images)]


def _merge(held: Mapping[Key, HeldImages]) -> dict[Key, HeldImages]:
    """Return the sets, one object for those that are equal: on its way to an actor each becomes its own."""
    objects = {id(images): images for images in held.values()}
    first: dict[bytes, HeldImages] = {}
    shared = {}
    for number, images in objects.items():
        other = first.setdefault(images.labels.tobytes(), images)
        is_equal = other is images or np.array_equal(other.images, images.images)
        shared[number] = other if is_equal else images
    return {key: shared[id(images)] for key, images in held.items()}


class Holdings:
    """What each client trains on and is tested on; of a client that moves, before and after that."""

    def __init__(self, setup: Setup, device: str) -> None:
        """Put the clients' images on a device, or take them to it when they are used."""
        clients, reference = setup.clients, setup.reference_set
        self._seed, self._batch_size = setup.seed, setup.training.batch_size
        self.reference = None if reference is None else DeviceSet.of(reference, device)
        """The server's reference images, if it has any."""
        movers = {data.client: data.moved for data in clients if data.moved is not None}
        self._since = {client: moved.round_index for client, moved in movers.items()}
        held = {(data.client, False): data for data in clients} | {
            (mover, True): movers[mover] for mover in movers
        }
        self._train = DeviceSets({key: data.train for key, data in held.items()}, device)
        self._test = DeviceSets({key: data.test for key, data in held.items()}, device)

    def train(self, client: int, round_index: int) -> DeviceSet:
        """Return the images that a client trains on in a round, from 0."""
        return self._train.of(self._key(client, round_index))

    def test(self, client: int, round_index: int) -> DeviceSet:
        """Return the images that a client is tested on in a round, from 0."""
        return self._test.of(self._key(client, round_index))

    def test_number(self, client: int, round_index: int) -> int:
        """Return a number that clients with the same images to be tested on share."""
        return self._test.number(self._key(client, round_index))

    def chosen_on(self, client: int, round_index: int, choose_on: ChooseOn) -> DeviceSet:
        """Return the images on which a client chooses its model in a round, from 0."""
        if choose_on == "test":
            return self.test(client, round_index)
        if choose_on == "reference":
            assert self.reference is not None, "there are no reference images: set split.reference_images"
            return self.reference
        held = self.train(client, round_index)
        if choose_on == "train":
            return held
        rng = generator(self._seed, "batches", client=client, round_index=round_index)
        first = torch.from_numpy(rng.permutation(len(held.labels))[: self._batch_size])
        return DeviceSet(held.images[first], held.labels[first])

    def _key(self, client: int, round_index: int) -> Key:
        return client, round_index >= self._since.get(client, round_index + 1)
