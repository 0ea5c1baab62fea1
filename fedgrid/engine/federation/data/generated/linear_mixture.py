"""Linear mixture: IFCA's synthetic problem, four linear regressions, with the sign of y as class.

The examples of group j are x ~ N(0, I) with y = x theta_j + N(0, sigma^2), and the class is whether y is
positive. Entries of theta_j are 0 or 1 with equal probability, times a scale that makes the expected length
1; two of them have an angle of about 60 degrees. So the best linear model of a group is right for
1 - arctan(sigma) / pi of its examples, and another group's for about two thirds.

Source: Ghosh, Chung, Yin, Ramchandran, An Efficient Framework for Clustered Federated Learning, NeurIPS 2020,
Section 6.1; https://github.com/jichan3751/ifca. There x has 1000 entries, a client 100 examples, and the loss
is squared. Here x has 100 entries, so that a few thousand examples of a group suffice.

Shapes: G groups, D inputs, N examples.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.seeds import make_generator

GROUPS, INPUTS, EXAMPLES = 4, 100, 3000
"""Number of groups, of inputs, and of examples of each group."""
SIGMA = 0.1
"""Standard deviation of the noise of y."""

Floats = NDArray[np.float32]
ClassLabels = NDArray[np.int64]


def draw_linear_mixture() -> tuple[list[Floats], list[ClassLabels]]:
    """Draw each group's inputs, shape (N, D), and classes, 0 or 1."""
    rng = make_generator(0, "IFCA's synthetic data")
    # Half of the entries are 1, so the expected squared length is 1.
    theta_GD = rng.integers(0, 2, (GROUPS, INPUTS)) / np.sqrt(INPUTS / 2)
    inputs, labels = [], []
    for theta_D in theta_GD:
        x_ND = rng.standard_normal((EXAMPLES, INPUTS))
        y_N = x_ND @ theta_D + SIGMA * rng.standard_normal(EXAMPLES)
        inputs.append(x_ND.astype(np.float32))
        labels.append((y_N > 0).astype(np.int64))
    return inputs, labels
