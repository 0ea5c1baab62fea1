"""Reconstruction of images from an update, by inverting gradients.

The attack searches for images whose gradient at the model that the client received points where its update
came from: Adam maximises the cosine of the two, with a small penalty on total variation. It steps by the
signs of the images' gradients. The attacker knows the client's classes and their shares, which the gradient
of the last layer reveals. One image is sought for each class, so that the result is at best an image that
stands for many. For a client with one image and one local step, that image is what is sought.

Source: Geiping, Bauermeister, Droege, Moeller, Inverting Gradients, NeurIPS 2020, arXiv:2003.14053. Their
batches have as many unknown images as the client's; here there is one for each class.

Shapes: N images of C channels and H x W pixels, P entries of a state vector, the parameters first.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedgrid.algorithms.updates.source import Vector
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.training.optimizers import take_adam_step

LEARNING_RATE = 0.1
DECAYS = (3 / 8, 5 / 8, 7 / 8)
"""Shares of the steps after which the learning rate falls to a tenth."""
VARIATION = 1e-3
"""Weight of the total variation in the loss."""


def invert_update(
    module: nn.Module,
    start: Vector,
    update: Vector,
    labels_N: NDArray[np.int64],
    shares_N: NDArray[np.float64],
    shape: tuple[int, int, int],
    steps: int,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Reconstruct one image for each label.

    Args:
        module: The run's model; its weights are overwritten.
        start: State vector that the client received, shape (P,).
        update: State vector of what it sent less `start`, shape (P,).
        labels_N: Classes of the client, shape (N,).
        shares_N: Share of each class among the client's images, shape (N,), with sum 1.
        shape: Channels, height, width.
        steps: Number of steps of the optimizer.
        rng: Draws the images to begin with.

    Returns:
        Images in [0, 1], float32, shape (N, C, H, W).
    """
    flat_vectors.write_vector(module, start)
    # The client trained with the statistics of its own batches, which the attacker does not have.
    module.eval()
    weights = [parameter for parameter in module.parameters() if parameter.requires_grad]
    num_parameters = sum(weight.numel() for weight in weights)
    # One step of plain SGD is the negative gradient times the learning rate, and the cosine has no scale; of
    # several steps it is an approximation. Entries after the parameters are running statistics, which have no
    # gradient.
    target = -torch.tensor(update[:num_parameters], dtype=torch.float32)
    labels, shares = torch.tensor(labels_N), torch.tensor(shares_N, dtype=torch.float32)
    images = torch.tensor(rng.random((len(labels_N), *shape), np.float32), requires_grad=True)
    mean, square, rate = torch.zeros_like(images), torch.zeros_like(images), LEARNING_RATE
    milestones = [max(1, int(share * steps)) for share in DECAYS]
    for step in range(steps):
        rate *= 0.1 ** milestones.count(step)  # With few steps, several decays may fall on one.
        losses = functional.cross_entropy(module(images), labels, reduction="none")
        # The graph is kept because the images' gradient goes through this gradient.
        parts = torch.autograd.grad((losses * shares).sum(), weights, create_graph=True)
        gradient = torch.cat([part.reshape(-1) for part in parts])
        distance = 1 - functional.cosine_similarity(gradient, target, dim=0)
        (image_gradient,) = torch.autograd.grad(distance + VARIATION * _total_variation(images), images)
        with torch.no_grad():
            # The sign of the gradient, as in the source: its size varies by orders of magnitude.
            take_adam_step(images, image_gradient.sign_(), mean, square, step + 1, rate)
            images.clamp_(0, 1)
    inverted: NDArray[np.float32] = images.detach().numpy()
    return inverted


def _total_variation(images: Tensor) -> Tensor:
    """Compute the total variation: the mean absolute differences of vertical and of horizontal neighbours."""
    return images.diff(dim=2).abs().mean() + images.diff(dim=3).abs().mean()
