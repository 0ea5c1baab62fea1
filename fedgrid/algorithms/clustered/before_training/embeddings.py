"""Embeddings: clients are clustered before training, by quantised mean codes of their classes.

Source: Prigent, Chelli, Costan, Cudennec, Schubert, Antoniu, Efficient Resource-Constrained Federated
Learning Clustering with Local Data Compression on the Edge-to-Cloud Continuum, HiPC 2024, Algorithms 1 to 3,
and its code (cedricprigent/efficient-fl-clustering), which `embeddings-as-published` follows: the sign of the
index reversed, BatchNorm by each class's own statistics, lower layers shared. Deviations: the index is
maximised, over all cuts; each class is scaled by itself, as in the code, not the vector, as in the text; a
client that has not joined yet is counted to the largest cluster.

Shapes: N clients, D entries of a vector.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, model_validator

from fedgrid.algorithms.clustered.before_training.before_training import (
    BeforeTraining,
    BeforeTrainingSettings,
)
from fedgrid.algorithms.clustered.before_training.class_means import ClassMeans, Flip
from fedgrid.algorithms.clustered.before_training.ward_tree import CutLimits, WardTree
from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.encoder import EncoderSettings
from fedgrid.algorithms.contract.orders import Message
from fedgrid.algorithms.contract.section import Condition, PositiveInt
from fedgrid.algorithms.updates.source import Rng

BIBTEX = r"""@inproceedings{prigent2024efficient,
  author = {Prigent, C{\'e}dric and Chelli, Melvin and Costan, Alexandru and Cudennec, Lo{\"i}c and
    others},
  title = {Efficient Resource-Constrained Federated Learning Clustering with Local Data Compression on
    the Edge-to-Cloud Continuum},
  booktitle = {IEEE International Conference on High Performance Computing, Data, and Analytics (HiPC)},
  year = {2024},
  url = {https://hal.science/hal-04779813}
}"""

RULES = ("best-ch", "bayesian", "bayesian-reversed", "widest-gap")
"""Values of `threshold` that are rules and not heights."""


def _check_threshold(given: str | float) -> str | float:
    """Check that it is a rule or a height above 0."""
    if given in RULES or (not isinstance(given, str) and given > 0):
        return given
    raise ValueError(f"{given!r} given; expected {', '.join(RULES)}, or a height above 0")


Threshold = Annotated[float | str, AfterValidator(_check_threshold)]
"""Type of the setting `threshold`."""


class EmbeddingsSettings(BeforeTrainingSettings):
    """Settings of Embeddings: what clients send, and how the server clusters it."""

    encoder: EncoderSettings = EncoderSettings(federated=10)
    """The encoder that makes codes of images."""
    flip: Flip = 0.1
    """Probability with which each bit is flipped, in [0, 0.5]. Of a list each client draws one of its own."""
    normalise: Literal["vector", "class"] = "class"
    """Part that is scaled to 0..1 before rounding: the part of each class (code), or the whole vector (text),
    which distinguishes groups less well."""
    quantise: bool = True
    """Whether codes are rounded to bits. False: means of codes are sent as they are, float32, without
    flips."""
    threshold: Threshold = "best-ch"
    """The height at which Ward's tree is cut. `best-ch`: that of the greatest Calinski-Harabasz index;
    `bayesian`: the best one that 35 steps of an optimisation find (text); `bayesian-reversed`: the same for
    the negative index, between 1 and 100 (code); `widest-gap` (ours): where a merge is the most times higher
    than the one below it, which flips mislead less."""
    num_clusters: PositiveInt | None = None
    """Ward's tree is cut into this many clusters instead, whatever the members; None: at `threshold`."""
    least_clusters: PositiveInt = 2
    """Least number of clusters of a cut that is accepted, unless the threshold is a number. The release has
    3."""
    least_members: PositiveInt = 2
    """Least number of members of each of its clusters; does not count if no cut has as many. The release has
    5 to 100. With 1, a few clients that send the same bits and many that are alone can have the greatest
    index."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("num_clusters",)
    acts_with: ClassVar[Mapping[str, Condition]] = {
        **dict.fromkeys(("flip", "normalise"), Condition(lambda given: given.quantise, "quantise true")),
        **dict.fromkeys(
            ("least_clusters", "least_members"),
            Condition(
                lambda given: given.num_clusters is None and isinstance(given.threshold, str),
                f"num_clusters null and threshold {', '.join(RULES)}",
            ),
        ),
    }

    @model_validator(mode="after")
    def _one_cut(self) -> Self:
        """Refuse a threshold and a number of clusters together."""
        if self.num_clusters is not None and self.threshold != "best-ch":
            raise ValueError(
                f"threshold = {self.threshold} has no effect beside num_clusters = {self.num_clusters}; "
                "leave one of them out"
            )
        return self


class Embeddings(BeforeTraining):
    """FedAvg in clusters of like embeddings.

    The vector of a client is the mean code of each class, scaled to 0..1 and rounded to bits, of which each
    is flipped with probability `flip`; a missing class is fair coins. Ward's tree of the vectors is cut.

    Sends: The half of the encoder that encodes, to every client; its federated training, if
    `encoder.federated`; and the bits: 200 for MNIST, 7,680 for CIFAR-10. `message_bytes` and `encoder_bytes`
    of `rounds.parquet` have them. After that as FedAvg.

    Degenerate cases:

    - No index is defined for one cluster: two are found also in a federation without groups.
    - With `least_members: 1` the identical bits of two clients can have the greatest index.
    - With `flip: 0.5` the bits carry nothing.

    As published: The optimisation maximises the negative index, between 1 and 100: it takes the worst of the
    cuts with at least three clusters of ten clients. Two layers are shared, and BatchNorm takes the
    statistics of a client's class when it encodes.
    """

    settings: EmbeddingsSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more clusters than clients."""
        return conditions.too_few_for(self.settings.num_clusters) or super().problem(conditions)

    def message(self) -> Message:
        """Build the message: bits of the mean codes of a client's classes."""
        names = ("encoder", "flip", "normalise", "quantise", "clip", "noise")
        return ClassMeans(**{name: getattr(self.settings, name) for name in names})

    def cluster_vectors(self, vectors_ND: NDArray[np.float64], rng: Rng) -> Labels:
        """Cluster by the tree's best cut."""
        tree = WardTree(vectors_ND)
        threshold = self.settings.threshold
        if self.settings.num_clusters is not None:
            return tree.cut_into(self.settings.num_clusters)
        guards = CutLimits(self.settings.least_clusters, self.settings.least_members)
        if threshold == "best-ch":
            return tree.find_best_index(guards).labels_N
        if threshold == "widest-gap":
            return tree.find_widest_gap(guards).labels_N
        if isinstance(threshold, str):
            seed = int(rng.integers(2**31))
            return tree.search_threshold(guards, seed, reversed_sign=threshold != "bayesian").labels_N
        return tree.cut_below(threshold).labels_N
