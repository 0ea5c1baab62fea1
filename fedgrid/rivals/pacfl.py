"""PACFL: clusters before training, by the angles between the subspaces that clients' images span.

Source: Vahidian, Morafah, Wang, Kungurtsev, Chen, Shah, Lin, Efficient Distribution Similarity Identification
in Clustered Federated Learning via Principal Angles between Client Data Subspaces, AAAI 2023,
arXiv:2209.10526, Algorithm 1, and the authors' code (MMorafah/PACFL).

1. Before its first round a client sends, of each of its classes, the first p left singular vectors of the
   matrix whose columns are the class's raw images (p = `vectors`).
2. A_ij is the least angle between a vector of client i and one of client j, in degrees, 0 to 90.
3. Clusters merge, the closest pair first, while they are at most beta = `angle` apart.
4. Within each cluster it is FedAvg; all clusters start from one model.

For newcomers A is extended and step 3 is repeated, which may also move others: a cluster goes on with the
model that most of its earlier members had, one of newcomers alone with that of the largest cluster. A client
that was held out is placed in the same way. Clients are tested with their cluster's model, as it is.

Deviations: angles are of absolute inner products, as a singular vector has no sign; the code takes its
accident. They are angles between single vectors, as in the code; principal angles need an orthonormal basis,
which vectors of several classes are not. `linkage: average` is the mean over pairs of clients; the code's is
`weighted`, the plain mean of two rows. The server averages by the run's `weights`, the authors by images. In
their last figure clients train once more before the test: here `fine_tune`.

Shapes: K clients, N of them with a basis, D numbers of an image, V vectors of a client.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedgrid import (
    AlgorithmEntry,
    Diagnostics,
    FedOpt,
    FedOptSettings,
    Layout,
    Matrix,
    Message,
    Payload,
    State,
    Traits,
    Updates,
)

if TYPE_CHECKING:
    from torch import Tensor

BIBTEX = r"""@inproceedings{vahidian2023efficient,
  author = {Vahidian, Saeed and Morafah, Mahdi and Wang, Weijia and Kungurtsev, Vyacheslav and Chen, Chen
    and Shah, Mubarak and Lin, Bill},
  title = {Efficient Distribution Similarity Identification in Clustered Federated Learning via Principal
    Angles between Client Data Subspaces},
  booktitle = {AAAI Conference on Artificial Intelligence},
  year = {2023},
  eprint = {2209.10526},
  archiveprefix = {arXiv}
}"""
BASIS, ANGLES = "basis", "angles"
"""In a message, and as the prefix of the state's arrays with those of all clients, float32, shape (V, D); the
state's array of the angles A, float64, shape (K, K), NaN where a client has sent nothing."""


class BasisMessage(Message):
    """The first left singular vectors of each class of a client's images."""

    takes: ClassVar[tuple[str, ...]] = ("pixels", "numbers")
    vectors: int

    def describe(
        self, images: "Tensor", labels: "Tensor", num_classes: int, rng: np.random.Generator
    ) -> Payload:
        """Compute the vectors, as rows; a class with fewer images than vectors has as many as images."""
        rows_ND, labels_N = images.flatten(1).double().cpu().numpy(), labels.cpu().numpy()
        classes = [rows_ND[labels_N == label] for label in np.unique(labels_N)]
        # The left singular vectors of a matrix are the right ones of its transpose.
        bases = [np.linalg.svd(rows, full_matrices=False)[2][: self.vectors] for rows in classes]
        return {BASIS: np.concatenate(bases).astype(np.float32)}


class PacflSettings(FedOptSettings):
    """Settings of PACFL: what is sent, and where the tree of merges is cut."""

    vectors: Annotated[int, Field(ge=1, strict=True)] = 3
    """p: number of singular vectors of each class; the paper takes 3 to 5."""
    angle: Annotated[float, Field(ge=0, le=90)] = 10.0
    """beta, in degrees: the greatest distance at which clusters merge."""
    linkage: Literal["average", "weighted"] = "average"
    """Distance of two clusters: the mean over all pairs of clients, or the mean of the two distances before a
    merge, as in the authors' code."""


class Pacfl(FedOpt):
    """FedOpt within clusters that are found by what clients send before their first round.

    Sends: Before its first round a client sends p vectors of each class, as long as an image; no noise covers
    them. Then the traffic is FedAvg's.

    Degenerate cases:

    - `angle: 90` is FedAvg to the bit; an angle below all distances is local training.
    - The vector of a class of one image is that image, scaled to length 1.

    Absent clients: A client that is away keeps its cluster, unless a newcomer's message moves it.

    Memory: `basis_000000` and so on, the vectors of each client, and `angles`.
    """

    settings: PacflSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm: it has a message, which needs classes."""
        return replace(super().traits, by_class=True, columns=frozenset({"message"}))

    def message(self) -> Message:
        """Build the message that each client sends before its first round."""
        return BasisMessage(vectors=self.settings.vectors)

    def meet(
        self, state: State, messages: Mapping[int, Payload], layout: Layout, rng: np.random.Generator
    ) -> State:
        """Extend the angles by those of the newcomers, and cluster all clients so far."""
        state = state.keep(**{_name_basis(client): sent[BASIS] for client, sent in messages.items()})
        angles_KK = state.arrays.get(ANGLES, np.full((len(state.labels_K),) * 2, np.nan)).copy()
        was_there_K = ~np.isnan(angles_KK.diagonal())
        for client in messages:
            angles_KK[client, client] = 0
            basis = state.arrays[_name_basis(client)]
            for other in np.flatnonzero(~np.isnan(angles_KK.diagonal())).tolist():
                if other != client:
                    angle = measure_angle(basis, state.arrays[_name_basis(other)])
                    angles_KK[client, other] = angles_KK[other, client] = angle
        groups = self._cut_tree(angles_KK)
        # A group takes over the number of its earlier members' cluster, so that the others keep theirs.
        rows, numbers, labels_K = list(range(len(state.models))), set(), state.labels_K.copy()
        for group in sorted(groups, key=lambda group: (not was_there_K[group].any(), group[0])):
            earlier = group[was_there_K[group]]
            source = int(np.bincount(state.labels_K[earlier if len(earlier) else group]).argmax())
            number = source
            if source in numbers:
                number = len(rows)
                rows.append(source)
            numbers.add(number)
            labels_K[group] = number
        # Clients that have not joined yet are in the largest cluster.
        labels_K[np.isnan(angles_KK.diagonal())] = labels_K[max(groups, key=len)[0]]
        return state.with_rows(rows, labels_K).keep(**{ANGLES: angles_KK})

    def _cut_tree(self, angles_KK: Matrix) -> list[np.ndarray]:
        """Merge the clients that have angles; ids of each cluster."""
        # Imports scipy's hierarchies, which take a while; algorithms are listed without them.
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform

        clients_N = np.flatnonzero(~np.isnan(angles_KK.diagonal()))
        if len(clients_N) == 1:
            return [clients_N]
        distances = squareform(angles_KK[np.ix_(clients_N, clients_N)])
        labels_N = fcluster(linkage(distances, self.settings.linkage), self.settings.angle, "distance")
        return [clients_N[labels_N == label] for label in np.unique(labels_N)]

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Report the partition that was chosen before round 1."""
        return state, Diagnostics(clustered=round_index == 0)


def measure_angle(basis_VD: Matrix, other_VD: Matrix) -> float:
    """Measure the least angle between a vector of one basis and one of the other, in degrees."""
    largest = np.abs(basis_VD.astype(np.float64) @ other_VD.astype(np.float64).T).max()
    # Rounded, because the last bits depend on the number of threads.
    return round(float(np.degrees(np.arccos(min(largest, 1.0)))), 4)


def _name_basis(client: int) -> str:
    return f"{BASIS}_{client:06d}"


ALGORITHMS = [
    AlgorithmEntry(
        name="pacfl",
        title="PACFL",
        summary="clusters before round 1, by angles between the subspaces of images",
        source="Vahidian et al. 2023, arXiv:2209.10526",
        algorithm=Pacfl,
        settings=PacflSettings(),
        search={"angle": {"low": 0.5, "high": 40.0, "log": True}, "linkage": ["average", "weighted"]},
        bibtex=BIBTEX,
    )
]
