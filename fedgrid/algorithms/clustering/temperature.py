"""When OCFL clusters: in the first round whose temperature rises.

Source: One-Shot Clustering for Federated Learning, arXiv:2503.04231, and its journal version
arXiv:2509.01587: the switch, and its moving average (section 6.3). The measure itself is
`algorithms.clustering.temperature.temperature`.
"""

from collections.abc import Sequence

import numpy as np

from fedgrid.algorithms.updates.source import Matrix


def rises(temperatures: Sequence[float], window: int) -> bool:
    """Return whether the moving average over `window` rounds has risen, strictly, in the last round.

    Compares the mean of the last `window` temperatures with that of the `window` ones that end a round
    earlier; False until `window` + 1 are known, so never in the first round. With window 1 it is the
    published switch, T_t > T_{t-1}.
    """
    if len(temperatures) < window + 1:
        return False
    # The two windows share all rounds but one each, so their means compare as those two do: without
    # a sum, rounding cannot turn a tie into a rise.
    return bool(temperatures[-1] > temperatures[-1 - window])


def temperature(cosine_distances_KK: Matrix) -> float:
    """Return |D|_F / (2 sqrt(K (K - 1))), half the root mean square of the pairwise cosine distances.

    Lies in [0, 1]: 0 for parallel updates, 0.5 for orthogonal ones. Fewer than two clients have
    temperature 0.
    """
    num_clients = len(cosine_distances_KK)
    if num_clients < 2:
        return 0.0
    return float(np.linalg.norm(cosine_distances_KK) / (2 * np.sqrt(num_clients * (num_clients - 1))))
