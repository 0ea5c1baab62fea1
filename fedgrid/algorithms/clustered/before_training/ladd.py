"""LADD: clients are clustered before training, by the low frequencies of their images' spectra.

Source: Shenaj et al., Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in
Clustered Federated Learning, WACV 2023; here as the baseline of Prigent et al. 2024, whose code sends the
mean style of each class, as real numbers, and clusters by k-means with K given. `per_class: false` and no
`num_clusters` are nearer to the original: one style a client, K by the silhouette. Its other parts (domain
adaptation, layers by name) are not here. Deviation: a missing class is uniform in [0, 1] with images in
[0, 1], as in the release; amplitudes are sums over pixels, so that absence is plainly visible.

Shapes: N images or clients, L classes, W entries of a style, D of a client's vector.
"""

from collections.abc import Mapping
from math import floor, prod
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgrid.algorithms.clustered.before_training.before_training import (
    BeforeTraining,
    BeforeTrainingSettings,
)
from fedgrid.algorithms.clustered.before_training.class_means import (
    VECTOR,
    PrivateMessage,
    compute_class_means,
)
from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.orders import Message, Payload
from fedgrid.algorithms.contract.section import Condition, PositiveInt
from fedgrid.algorithms.updates.source import Rng

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{shenaj2023learning,
  author = {Shenaj, Donald and Fan{\`i}, Eros and Toldo, Marco and Caldarola, Debora and Tavera, Antonio
    and Michieli, Umberto and Ciccone, Marco and Zanuttigh, Pietro and Caputo, Barbara},
  title = {Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in Clustered
    Federated Learning},
  booktitle = {IEEE/CVF Winter Conference on Applications of Computer Vision (WACV)},
  year = {2023}
}"""

KMEANS_STARTS = 10
"""Number of starts of k-means."""
BLOCK = 1 << 20
"""Values of images (pixels by channels) whose spectra are computed at a time: a spectrum takes 20 bytes
each."""
Share = Annotated[float, Field(gt=0, lt=0.5)]


class Styles(PrivateMessage):
    """The message of a client's mean style of each class, or of all images."""

    takes: ClassVar[tuple[str, ...]] = ("pixels",)

    share: Share = 0.1
    per_class: bool = True

    def describe(self, images: "Tensor", labels: "Tensor", num_classes: int, rng: Rng) -> Payload:
        """Compute the mean styles of a client's images.

        Args:
            images: uint8, shape (N, channels, height, width).
            labels: their classes, int64, shape (N,).
            num_classes: L.
            rng: seeded by (run, client).

        Returns:
            `vector`, float32, shape (L W,), or (W,) without `per_class`.
        """
        # A child for the noise: fillings of missing classes have the same bits with and without it.
        styles = compute_styles(images, self.share)
        [noise] = rng.spawn(1)
        # A missing class is filled in as in the release, although real amplitudes are far larger.
        if self.per_class:
            means_LW = compute_class_means(styles, labels, num_classes)
            means_D = np.where(np.isnan(means_LW), rng.random(means_LW.shape), means_LW).ravel()
        else:
            means_D = styles.double().mean(dim=0).cpu().numpy()
        return {VECTOR: self.clip_and_add_noise(means_D, noise).astype(np.float32)}


def compute_styles(images: "Tensor", share: float) -> "Tensor":
    """Compute the low frequencies of uint8 images, float32, shape (N, W).

    Of the amplitudes of each channel's 2-D spectrum, images in [0, 1], a square of side 2 b + 1 around
    frequency zero, b = floor(share * the shorter side).
    """
    import torch

    at_a_time = max(1, BLOCK // prod(images.shape[1:]))
    return torch.cat([_compute_block(part, share) for part in torch.split(images, at_a_time)])


def _compute_block(images: "Tensor", share: float) -> "Tensor":
    """Compute the low frequencies of a part of the images."""
    import torch

    height, width = images.shape[2:]
    reach = floor(share * min(height, width))
    # On some processors the last bits of a transform depend on the strides, and on how many images there are.
    planes = images.contiguous().float() / 255
    amplitudes = torch.fft.fftshift(torch.fft.fft2(planes).abs(), dim=(2, 3))
    rows, columns = (slice(side // 2 - reach, side // 2 + reach + 1) for side in (height, width))
    low: Tensor = amplitudes[:, :, rows, columns].flatten(1)
    return low


class LaddSettings(BeforeTrainingSettings):
    """Settings of LADD: what a style is, and how many clusters there are."""

    num_clusters: PositiveInt | None = None
    """Number of clusters, K; None takes the one with the greatest silhouette."""
    most_clusters: Annotated[int, Field(ge=2, strict=True)] = 10
    """Largest K that is tried."""
    share: Share = 0.1
    """Share of an image's side that is a low frequency."""
    per_class: bool = True
    """Whether there is a style for each class; the original has one a client."""

    acts_with: ClassVar[Mapping[str, Condition]] = {
        "most_clusters": Condition(lambda given: given.num_clusters is None, "num_clusters null")
    }


class Ladd(BeforeTraining):
    """FedAvg in clusters of like styles.

    A style is the amplitudes of an image's spectrum at low frequencies: a square of side
    2 floor(`share` x side) + 1 around frequency zero. Clients send its mean over each class.

    Sends: The styles as float32, 250 numbers for MNIST and 1,470 for CIFAR-10. After that as FedAvg.

    Degenerate cases:

    - Amplitudes do not change by half a turn, so 0 and 180 degrees are one group.
    - A missing class is uniform in [0, 1], far below real amplitudes: absence shows.
    """

    settings: LaddSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more clusters than clients."""
        return conditions.too_few_for(self.settings.num_clusters) or super().problem(conditions)

    def message(self) -> Message:
        """Build the message: mean styles."""
        names = ("share", "per_class", "clip", "noise")
        return Styles(**{name: getattr(self.settings, name) for name in names})

    def cluster_vectors(self, vectors_ND: NDArray[np.float64], rng: Rng) -> Labels:
        """Cluster by k-means."""
        seed = int(rng.integers(2**31))
        num_vectors = len(vectors_ND)
        if self.settings.num_clusters is not None:
            return run_kmeans(vectors_ND, min(self.settings.num_clusters, num_vectors), seed)
        from sklearn.metrics import silhouette_score

        best = -np.inf
        labels_N = np.zeros(num_vectors, np.int64)
        # Up to N - 1: the silhouette is not defined for one cluster, nor for N.
        for count in range(2, min(self.settings.most_clusters, num_vectors - 1) + 1):
            candidate_N = run_kmeans(vectors_ND, count, seed)
            if len(np.unique(candidate_N)) < count:  # There are fewer different vectors.
                break
            score = float(silhouette_score(vectors_ND, candidate_N))
            if score > best:
                best = score
                labels_N = candidate_N
        return labels_N


def run_kmeans(vectors_ND: NDArray[np.float64], count: int, seed: int) -> Labels:
    """Cluster by the best of ten starts of k-means, shape (N,)."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Fewer different vectors than clusters.
        model = KMeans(count, n_init=KMEANS_STARTS, random_state=seed).fit(vectors_ND)
    return np.asarray(model.labels_, np.int64)
