"""Images on the device that trains on them."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.data.images import HeldImages


class DeviceSet:
    """Images and labels on a device: one uint8 tensor with channels last, one int64 tensor."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    @classmethod
    def of(cls, held: HeldImages, device: str) -> "DeviceSet":
        """Put images on a device."""
        # `np.array` copies: what comes from shared memory is read-only and may go away.
        images = torch.from_numpy(np.array(held.images.transpose(0, 2, 3, 1), order="C"))
        labels = torch.from_numpy(np.array(held.labels))
        return cls(
            images.to(device, non_blocking=True).permute(0, 3, 1, 2), labels.to(device, non_blocking=True)
        )

    def part(self, where: slice) -> "DeviceSet":
        """Return some of the images, which are not copied."""
        return DeviceSet(self.images[where], self.labels[where])


class DeviceSets:
    """Each client's images on a device; clients with one set in common share its tensors.

    On a GPU they are put there once for all. Main memory has them already, so on a CPU only the last set in
    use is kept a second time.
    """

    def __init__(self, held: Mapping[int, HeldImages], device: str) -> None:
        self._held = held
        self._device = device
        self._put: dict[int, DeviceSet] = {}
        if device != "cpu":
            for client in held:
                self[client]

    def __getitem__(self, client: int) -> DeviceSet:
        images = self._held[client]
        if id(images) not in self._put:
            if self._device == "cpu":
                self._put.clear()
            self._put[id(images)] = DeviceSet.of(images, self._device)
        return self._put[id(images)]
