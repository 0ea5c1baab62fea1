"""A data set: measurements of cell nuclei, a row a patient, which come with scikit-learn."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from fedgrid import ImageSet, OwnDataset


def read(folder: Path) -> tuple[ImageSet, ImageSet]:
    """Read the images that are split among the clients, and the server's test set.

    Args:
        folder: The data folder, in which a data set that is downloaded would lie.
    """
    table = load_breast_cancer()
    rows, labels = table.data.astype(np.float32), table.target
    is_test = np.arange(len(labels)) % 5 == 0
    return ImageSet(rows[~is_test], labels[~is_test]), ImageSet(rows[is_test], labels[is_test])


DATASETS = [OwnDataset("nuclei", title="cell nuclei", source="Street et al. 1993", read=read)]
