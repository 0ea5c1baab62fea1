"""What a data set is; `runtime.data.datasets` lists those with a name."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet, Pair
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.inputs import CALLED, Inputs, Sizes
from fedgrid.engine.federation.training.settings import Training


@dataclass(frozen=True)
class Dataset:
    """A data set; its images are read by `load`."""

    name: str
    """A key of `DATASETS`, or what a run calls the user's own images (`runtime.data.own_images`)."""
    title: str
    source: str
    """Origin, one line."""
    num_classes: int
    inputs: Inputs
    """What each of its images is: pixels, numbers or tokens."""
    pool_size: int
    """Number of images in the pool, which is split among the clients. An estimate for a data set with `facts`
    whose file is not here yet."""
    model: str
    training: Training
    read: Callable[[Path], Pair] = field(repr=False, compare=False)
    """Reads `location`; returns (pool, server's test set)."""
    download_mb: int = 0
    """Size of the download in megabytes; 0 if nothing is downloaded."""
    location: str = ""
    """Path for `read`, relative to the data folder; absolute for the user's own images."""
    num_groups: int | None = None
    """Number of groups that the images have themselves, such as writers or domains; None: they have none."""
    class_names: tuple[str, ...] = ()
    """Of the user's own folders, by the classes' numbers; empty where classes have numbers only."""
    files: tuple[str, ...] = ()
    """Required files, relative to the data folder."""
    fetch: Callable[[Path], None] | None = field(default=None, repr=False, compare=False)
    """Downloads the files into a folder, checks and unpacks them; None if there is no download."""
    facts: Callable[[Path], Sizes] | None = field(default=None, repr=False, compare=False)
    """Reads the sizes from `location`, where they depend on how its file was made."""
    is_own: bool = False
    """Whether it is a plugin's, whose sizes, model and training are not known before it is read."""
    made_by: str = ""
    """The command that makes the files, where there is no download."""
    bibtex: str = field(default="", repr=False)
    """Entries of its papers, apart by blank lines, which `fedgrid cite` prints; empty for the user's own."""

    def check_kind(self, what: str, takes: Collection[str], *key: str) -> None:
        """Check that a part of a run takes what the examples are.

        Args:
            what: the part, as in `split rotated`.
            takes: the kinds that it takes, see `Inputs.kind`.
            key: where the configuration names it.

        Raises:
            ConfigError: it does not take them.
        """
        if self.inputs.kind not in takes:
            names = " or ".join(called for kind, called in CALLED.items() if kind in takes)
            raise ConfigError(f"{what} takes {names}; {self.name} has {self.inputs}", key)


def check_images(dataset: Dataset, part: str, image_set: ImageSet) -> None:
    """Check what the images are, range of the labels, and that no class is empty.

    Raises:
        DataError: otherwise.
    """
    if image_set.inputs != dataset.inputs:
        raise DataError(
            f"{dataset.name}: the {part} data are {image_set.inputs} where {dataset.inputs} were expected; "
            "replace them or make all one size"
        )
    labels, last = image_set.labels, dataset.num_classes - 1
    outside = labels[(labels < 0) | (labels > last)]
    if len(outside):
        raise DataError(
            f"{dataset.name}: label {outside[0]} of a {part} image is not a class; allowed: 0 to {last}"
        )
    counts_L = np.bincount(labels, minlength=dataset.num_classes)
    if not counts_L.all():
        empty = int(np.argmin(counts_L))
        raise DataError(
            f"{dataset.name}: class {empty} has no {part} images; add some or leave the class out"
        )
