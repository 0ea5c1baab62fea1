"""Testing a model.

Shapes: N images, L classes.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.engine.training.confusion import Counts

TEST_BATCH = 128
"""Images a test batch. Fixed, since the last bits of a loss depend on it; larger ones fall out of cache."""


def to_inputs(images: Tensor) -> Tensor:
    """Return uint8 images as float32 in [0, 1], with the strides they have."""
    return images.to(torch.float32).div_(255)


@torch.inference_mode()
def test(module: nn.Module, images: Tensor, labels: Tensor, num_classes: int, batch_size: int) -> Counts:
    """Return the confusion matrix and the summed cross-entropy of the module in inference mode.

    Args:
        module: maps images to logits (N, L); left in `eval` mode.
        images: uint8, shape (N, channels, height, width), on the module's device.
        labels: int64, shape (N,), 0..L-1, on the same device.
        num_classes: L.
        batch_size: images a forward pass; `TEST_BATCH` everywhere in a run.
    """
    if not len(labels):
        return Counts(np.zeros((num_classes, num_classes), np.int64), 0.0)
    module.eval()
    starts = range(0, len(labels), batch_size)
    logits = torch.cat([module(to_inputs(images[start : start + batch_size])) for start in starts])
    loss_sum = functional.cross_entropy(logits.double(), labels, reduction="sum")
    cells = labels * num_classes + logits.argmax(dim=1)
    confusion = torch.bincount(cells, minlength=num_classes**2).view(num_classes, num_classes)
    return Counts(confusion.cpu().numpy(), float(loss_sum))
