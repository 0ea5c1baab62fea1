"""Images and labels on a device, as a worker trains and tests on them."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

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


def shared(held: Mapping[int, ImageSet], device: str) -> dict[int, DeviceSet]:
    """Put each client's images on a device; clients with one set in common share its tensors."""
    put: dict[int, DeviceSet] = {}
    for images in held.values():
        if id(images) not in put:
            put[id(images)] = DeviceSet.of(images, device)
    return {client: put[id(images)] for client, images in held.items()}
