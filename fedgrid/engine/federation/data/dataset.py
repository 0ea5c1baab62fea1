"""A data set: what is known of it before its examples are read, and how to read them.

`runtime.data.datasets` finds data sets by name; the registry lists those of the package.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.data.images import ClassLabels, ImageSet, Pair
from fedgrid.engine.federation.data.names import has_target
from fedgrid.engine.federation.data.partition import Partition
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.inputs import KIND_NAMES, Inputs
from fedgrid.engine.federation.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a data set before its examples are read.

    A run is planned, and refused if it is impossible, from these facts alone: reading the examples may take
    minutes.
    """

    num_classes: int
    """Number of classes, numbered from 0."""
    inputs: Inputs
    """Kind and shape of each example: pixels, numbers or tokens."""
    pool_size: int
    """Number of examples in the pool, which is split among the clients. An estimate for a data set whose
    `sizes_vary` and whose file is not here yet."""
    test_size: int | None = None
    """Number of examples of the server's test set, an estimate likewise; None: not known yet."""
    num_groups: int | None = None
    """Number of groups that the data themselves name, such as writers or domains; None: they name none."""
    class_names: tuple[str, ...] = ()
    """Names of the classes, by their numbers; empty where classes have numbers only."""
    assigned: Partition | None = field(default=None, repr=False, compare=False)
    """Which client holds which examples of the pool, if the data or the file of a split say so."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What a user may not expect of the own data, one line each."""


DataSource = tuple[Facts, Callable[[], Pair]]
"""Facts of the user's own data once they are opened, and a function that reads their examples."""


@dataclass(frozen=True)
class Dataset(Facts):
    """An entry of the registry, or the user's own data; its examples are read by `read`."""

    name: str
    """A key of `DATASETS`, or the name that a run gives the user's own images (`runtime.data.own_images`)."""
    title: str
    """Name in tables and figures."""
    source: str
    """Origin, in one line."""
    model: str
    """Name of the default model."""
    training: Training
    """Default settings of the local training."""
    read: Callable[[Path], Pair] = field(repr=False, compare=False)
    """Reads the folder or file at `location`; returns (pool, server's test set)."""
    download_mb: int = 0
    """Size of the download in megabytes; 0 if nothing is downloaded."""
    location: str = ""
    """Path that `read` is given, relative to the data folder; absolute for the user's own images."""
    may_lack_classes: bool = False
    """Whether a class may be missing in the pool or in the test set."""
    files: tuple[str, ...] = ()
    """Required files, relative to the data folder."""
    fetch: Callable[[Path], None] | None = field(default=None, repr=False, compare=False)
    """Downloads the files into a folder, checks and unpacks them; None if there is no download."""
    sizes_vary: bool = False
    """Whether its sizes depend on how its npz file was made."""
    is_own: bool = False
    """Whether it is a plugin's, whose sizes, model and training are not known before it is read."""
    made_by: str = ""
    """The command that makes the files, where there is no download."""
    is_listed: bool = True
    """Whether lists name it before its files are here; False for a set that differs from another in size
    alone."""
    bibtex: str = field(default="", repr=False)
    """BibTeX entries of its papers, separated by blank lines, which `fedgrid cite` prints; empty for the
    user's own."""
    licence: str = ""
    """Licence as its authors state it; empty where they state none, or it was not checked."""

    @property
    def default_split(self) -> str:
        """The kind of split where the user names none."""
        if self.assigned is not None:
            return "file"
        return "iid" if self.may_lack_classes else "nonoverlapping-balanced"

    @property
    def num_bytes(self) -> int:
        """Memory in bytes while the examples are read: the pool counts twice, in parts and as one array."""
        return (2 * self.pool_size + (self.test_size or 0)) * self.inputs.num_bytes

    def check_kind(self, what: str, takes: Collection[str], *key: str) -> None:
        """Check that a part of a run can use examples of this kind.

        Args:
            what: the part, as in `split rotated`.
            takes: the kinds that it can use, see `Inputs.kind`.
            key: path of the configuration's key that names the part.

        Raises:
            ConfigError: it cannot use them.
        """
        if self.inputs.kind not in takes:
            names = " or ".join(called for kind, called in KIND_NAMES.items() if kind in takes)
            raise ConfigError(f"{what} takes {names}; {self.name} has {self.inputs}", key)

    def check_classes(self, what: str, *key: str) -> None:
        """Check that there are classes, for a part of a run that needs them; arguments as in `check_kind`.

        Raises:
            ConfigError: there are numbers to predict in place of classes.
        """
        if has_target(self.name):
            raise ConfigError(f"{what} needs classes; {self.name} has numbers to predict", key)


def check_images(dataset: Dataset, part: str, image_set: ImageSet) -> None:
    """Check shape and labels of what was read, and that no class is empty unless it may be.

    Args:
        dataset: the entry, with what is expected.
        part: what messages call the set, `training` or `test`.
        image_set: what was read.

    Raises:
        DataError: one of the checks fails.
    """
    if image_set.inputs != dataset.inputs:
        raise DataError(
            f"{dataset.name}: the {part} data are {image_set.inputs} where {dataset.inputs} were expected; "
            "replace them or make all one size"
        )
    labels, last = image_set.classes, dataset.num_classes - 1
    outside = labels[(labels < 0) | (labels > last)]
    if len(outside):
        raise DataError(
            f"{dataset.name}: label {outside[0]} of a {part} image is not a class; allowed: 0 to {last}"
        )
    # Splits of the papers deal out every class, so a gap would fail much later and say less.
    if dataset.may_lack_classes:
        return
    check_numbered_from_zero(dataset.name, labels)
    # Zeros up to the last class, so that a missing last class counts as empty too.
    counts_L = np.bincount(labels, minlength=dataset.num_classes)
    if not counts_L.all():
        empty = int(np.argmin(counts_L))
        raise DataError(
            f"{dataset.name}: class {empty} has no {part} images; add some or leave the class out"
        )


def check_numbered_from_zero(source: str, labels: ClassLabels) -> None:
    """Check that the classes are not numbered from 1.

    Raises:
        DataError: they are.
    """
    if labels.min(initial=1) == 1 and len(labels):
        raise DataError(
            f"{source}: the classes are numbered from 1 to {labels.max()}; number them from 0, labels - 1"
        )
