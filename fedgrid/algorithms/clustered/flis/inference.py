"""Inference similarity: how alike two models' predictions on the server's reference images are.

Source: Morafah, Vahidian, Wang, Lin, FLIS: Clustered Federated Learning via Inference Similarity for Non-IID
Data Distribution, 2022, arXiv:2208.09754, section 2. B is a model's matrix of predictions, one row an image.
`agreement` is the released code's <B_i, B_j> / (|B_i| |B_j|): of one-hot rows the share of images on which
the two models predict the same class. `printed` is the paper's |B_i o B_j| / (|B_i| |B_j|), which of one-hot
rows is sqrt(that share / M): 1 / sqrt(M) of a model with itself.

Shapes: N models, M reference images, L classes.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgrid.algorithms.contract.base import Labels, State
from fedgrid.algorithms.contract.orders import PREDICTIONS
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.algorithms.updates.updates import Updates

LabelKind = Literal["hard", "soft"]
SimilarityKind = Literal["agreement", "printed"]
Threshold = Annotated[float, Field(ge=0)]
"""Type of a similarity from which models are joined."""
Classes = NDArray[np.int16]
"""Predicted classes, int16, shape (models, M)."""
JoinMatrix = NDArray[np.bool_]
"""Matrix of the pairs of models that are joined, bool, shape (N, N)."""
CLASSES = "classes_KM"
"""Name of the state's array with each client's predicted classes, int16, shape (K, M)."""
UNKNOWN = -1
"""Class in the row of a client whose model has predicted nothing."""
NEEDS_REFERENCES = (
    "compares models by their predictions on images that the server has: set split.reference_images, to "
    "2500 as in the paper or to fewer (they are taken from the official test set and are in no test)"
)
"""Message for a run without reference images."""


def infer_similarities(
    updates: Updates, labels: LabelKind, similarity: SimilarityKind
) -> tuple[Matrix, Classes]:
    """Compute similarities and predicted classes of a round's models, in the order of `updates.clients`."""

    def compute_arrays(predictions_NML: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Compute both from the models' predictions; runs that share the round do it once."""
        classes_NM = [predictions_ML.argmax(axis=1) for predictions_ML in predictions_NML]
        return {
            "similarities_NN": compute_similarities(predictions_NML, labels, similarity),
            # int16: the array is stored with every state, for all clients and reference images.
            "classes_NM": np.stack(classes_NM).astype(np.int16),
        }

    # The settings are part of the name: other runs compare the same predictions in another way.
    arrays = updates.derived(PREDICTIONS, f"{labels}-{similarity}", compute_arrays)
    return arrays["similarities_NN"], arrays["classes_NM"]


def compute_similarities(
    predictions_NML: Sequence[NDArray[Any]], labels: LabelKind, similarity: SimilarityKind
) -> Matrix:
    """Compute the similarities of models by their class probabilities, float64, shape (N, N), in [0, 1].

    Args:
        predictions_NML: class probabilities of each model, shape (M, L).
        labels: `hard`: B has the predicted classes, one-hot; `soft`: the probabilities.
        similarity: which formula.
    """
    rows = [
        encode_one_hot(predictions_ML) if labels == "hard" else predictions_ML
        for predictions_ML in predictions_NML
    ]
    flat = np.stack([np.asarray(row, np.float64).ravel() for row in rows])
    # |B|^2 of each model; of one-hot rows it is M.
    squares_N = np.einsum("nd,nd->n", flat, flat)
    products_NN = np.sqrt(flat**2 @ (flat**2).T) if similarity == "printed" else flat @ flat.T
    similarities_NN = products_NN / np.sqrt(np.outer(squares_N, squares_N))
    # So that equal models have the similarity 1 and not one bit less, below a beta of 1.
    return np.asarray(similarities_NN, np.float64).round(12)


def encode_one_hot(probabilities_ML: NDArray[Any]) -> Matrix:
    """Encode the most probable class of each row as 1, of equals the first, and all others as 0."""
    return np.asarray(np.eye(probabilities_ML.shape[1])[probabilities_ML.argmax(axis=1)], np.float64)


def compute_agreements(classes_NM: Classes, others_OM: Classes) -> Matrix:
    """Compute the shares of images on which models predict the same class, float64, shape (N, O)."""
    return np.array([(others_OM == classes_M).mean(axis=1) for classes_M in classes_NM])


def replace_classes(state: State, clients: Sequence[int], classes_NM: Classes) -> Classes:
    """Replace the rows of `clients` in the state's predicted classes; return the array."""
    nothing = np.full((len(state.labels_K), classes_NM.shape[1]), UNKNOWN, np.int16)
    # A copy: the arrays of a state are read-only.
    classes_KM = np.array(state.arrays.get(CLASSES, nothing))
    classes_KM[list(clients)] = classes_NM
    return classes_KM


def find_neighbours(similarities_NN: Matrix, threshold: float) -> JoinMatrix:
    """Find which models are joined: those at least as similar as `threshold`, and each with itself."""
    return np.asarray((similarities_NN >= threshold) | np.eye(len(similarities_NN), dtype=bool))


def find_components(joined_NN: JoinMatrix) -> Labels:
    """Find the connected components, numbered by their first member, shape (N,)."""
    from scipy.sparse.csgraph import connected_components

    # As an undirected graph: `joined_NN` is symmetric.
    _, labels_N = connected_components(joined_NN, directed=False)
    return np.asarray(labels_N, np.int64)


def find_distinct_groups(joined_NN: JoinMatrix, clients: Sequence[int]) -> tuple[list[list[int]], Labels]:
    """Find the distinct neighbourhoods, in the order of their first owners.

    Returns:
        Their client ids, and the position of each model's neighbourhood, shape (N,).
    """
    places: dict[tuple[int, ...], int] = {}
    owners = [
        places.setdefault(tuple(np.asarray(clients)[joined_N].tolist()), len(places))
        for joined_N in joined_NN
    ]
    return [list(group) for group in places], np.array(owners, np.int64)
