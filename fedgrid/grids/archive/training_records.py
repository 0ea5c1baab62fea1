"""Centralised trainings of the OCFL papers' authors, as an imported grid keeps them: `centralised.json`.

`fedgrid analyse GRID epsilons` shows them beside one's own.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.storage.format import DamagedFile, seal, unseal
from fedgrid.grids.results.grid_folder import GRIDS, GridFolder

FILE = "centralised.json"
TestSet = Literal["validation", "test"]


class SetScores(Section):
    """Scores on one set of images."""

    loss: float
    accuracy: float
    f1: float
    """Macro average."""


class ArchivedTraining(Section):
    """One centralised training; lists have a value an epoch, none if its file is absent."""

    dataset: str
    name: str
    """Its folder in the archive, as `centralised_test`."""
    model: str | None = None
    """As the authors call it."""
    learning_rate: float | None = None
    loss: tuple[float, ...] = ()
    """Mean cross-entropy while the model changes."""
    weights_l1: tuple[float, ...] = ()
    """L1 norm of the weights after the epoch."""
    by_epoch: tuple[SetScores, ...] = ()
    """On one of the two sets after each epoch."""
    by_epoch_on: TestSet
    """Which set that is."""
    final: SetScores | None = None
    """On the other set after the last epoch."""

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return max(len(self.loss), len(self.by_epoch))

    def last_on(self, images: TestSet) -> SetScores | None:
        """Return the scores of the last epoch on a set, None if they are absent."""
        if images != self.by_epoch_on:
            return self.final
        return self.by_epoch[-1] if self.by_epoch else None

    def l1_change(self, epoch: int) -> float | None:
        """Return the change of the L1 norm in an epoch, counted from 1; None in the first and if unknown."""
        if not 1 < epoch <= len(self.weights_l1):
            return None
        return self.weights_l1[epoch - 1] - self.weights_l1[epoch - 2]


def keep(trainings: Iterable[ArchivedTraining], grid: GridFolder) -> None:
    """Write the trainings into the folder of an imported grid.

    Raises:
        RunError: if they cannot be written.
    """
    grid.write(FILE, seal({"trainings": [training.model_dump(mode="json") for training in trainings]}))


def of_dataset(dataset: str, root: Path) -> list[tuple[str, ArchivedTraining]]:
    """Return grid and training of every training of a data set that was imported into the storage at `root`.

    Raises:
        RunError: a file is damaged.
        ConfigError: it is of a newer fedgrid.
    """
    found = []
    for path in sorted((root / GRIDS).glob(f"*/{FILE}")):
        try:
            trainings = [ArchivedTraining.model_validate(each) for each in unseal(path)["trainings"]]
        except (DamagedFile, ValidationError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: import the archive again") from error
        found += [(path.parent.name, training) for training in trainings if training.dataset == dataset]
    return found
