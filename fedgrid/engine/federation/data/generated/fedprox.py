"""Synthetic(alpha, beta): FedProx's thirty devices, each with a linear classifier and inputs of its own.

Device k has u_k ~ N(0, alpha) and B_k ~ N(0, beta); v_k ~ N(B_k, 1) for each of the 60 inputs; weights W_k
and biases b_k ~ N(u_k, 1). Its examples are x ~ N(v_k, diag(j^-1.2)), of class argmax(W_k x + b_k), in number
lognormal(4, 2), cut to a whole number, + 50. Second arguments are standard deviations, but for the covariance
of x; the paper leaves it open, its release does so.

alpha changes no class: u_k adds one and the same number, u_k (1 + sum of x), to all ten logits.

Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, Federated Optimization in Heterogeneous Networks, MLSys
2020, Section 5.1; https://github.com/litian96/FedProx, data/synthetic_1_1. Here all pairs (alpha, beta)
share their random numbers, which the release draws for each pair.

Shapes: K devices, D inputs, L classes, N examples.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.seeds import make_generator

DEVICES, INPUTS, CLASSES = 30, 60, 10

Floats = NDArray[np.float32]
ClassLabels = NDArray[np.int64]


def draw_synthetic(alpha: float, beta: float) -> tuple[list[Floats], list[ClassLabels]]:
    """Draw each device's inputs, shape (N, D), and classes, 0 to 9."""
    rng = make_generator(0, "FedProx's synthetic data")
    sizes_K = rng.lognormal(4, 2, DEVICES).astype(int) + 50
    # Standard normal numbers times alpha and beta: all pairs share their random numbers, and differ by scale
    # alone.
    u_K, b_K = alpha * rng.standard_normal(DEVICES), beta * rng.standard_normal(DEVICES)
    means_KD = b_K[:, None] + rng.standard_normal((DEVICES, INPUTS))
    weights_KDL = u_K[:, None, None] + rng.standard_normal((DEVICES, INPUTS, CLASSES))
    biases_KL = u_K[:, None] + rng.standard_normal((DEVICES, CLASSES))
    # The paper's variances are j^-1.2.
    deviations_D = np.arange(1, INPUTS + 1) ** -0.6

    inputs, labels = [], []
    for size, means_D, weights_DL, biases_L in zip(sizes_K, means_KD, weights_KDL, biases_KL, strict=True):
        x_ND = means_D + deviations_D * rng.standard_normal((size, INPUTS))
        inputs.append(x_ND.astype(np.float32))
        labels.append(np.argmax(x_ND @ weights_DL + biases_L, axis=1))
    return inputs, labels
