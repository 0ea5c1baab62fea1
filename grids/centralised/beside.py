"""A centralised training beside those of the papers' authors, if the storage has an imported archive."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.archive.training_records import ArchivedTraining, of_dataset
from fedgrid.grids.centralised.folder import CentralisedFolder
from fedgrid.grids.centralised.show import table_of
from fedgrid.grids.display.plain import print_plain

PUBLISHED_EPOCH = {"mnist": 31, "fmnist": 41, "cifar10": 11, "pathmnist": 41, "bloodmnist": 41}
"""The epoch, counted from 1, of whose change of the L1 norm the published epsilon_1 is a tenth."""
OWN = "this one"
COLUMNS = {
    "training": ("training", "s"),
    "learning_rate": ("learning\nrate", "g"),
    "epochs": ("epochs", "d"),
    "loss": ("loss", ".4f"),
    "validation_accuracy": ("valid.\naccuracy", ".3f"),
    "validation_f1": ("valid.\nF1", ".3f"),
    "test_accuracy": ("test\naccuracy", ".3f"),
    "test_f1": ("test\nF1", ".3f"),
    "weights_l1_change": ("L1 change\nin epoch {}", ".4g"),
}
LEGEND = (
    "After the last epoch. test: here the whole official test set; the authors halved it, one half for the\n"
    "validation, and took MedMNIST's official sets, in files with exchanged names. A tenth of the absolute\n"
    "L1 change in that epoch is the published epsilon_1."
)


def rows_beside(folder: CentralisedFolder, storage: Storage) -> list[dict[str, Any]]:
    """Return a row for the finished training in `folder`, then one for each imported one of its data set.

    There is no row at all without imported ones.

    Raises:
        RunError: the storage cannot be read, or what was imported is damaged.
    """
    imported = archived_rows(folder.config.dataset, storage)
    return [_own_row(folder), *imported] if imported else []


def archived_rows(dataset: str, storage: Storage) -> list[dict[str, Any]]:
    """Return a row for each imported training of a data set.

    Raises:
        RunError: the storage cannot be read, or what was imported is damaged.
    """
    return [_row(grid, training, dataset) for grid, training in of_dataset(dataset, storage)]


def show_beside(rows: Sequence[dict[str, Any]], dataset: str, console: Console) -> None:
    """Show the rows of `rows_beside`; nothing if there are none."""
    if not rows:
        return
    columns = {
        name: (heading.format(PUBLISHED_EPOCH.get(dataset)), kind)
        for name, (heading, kind) in COLUMNS.items()
    }
    if dataset not in PUBLISHED_EPOCH:
        del columns["weights_l1_change"]
    print_plain(console)
    console.print(
        table_of(f"Beside the authors' centralised trainings of {dataset}", columns, rows, console.width)
    )
    print_plain(console, LEGEND)


def _own_row(folder: CentralisedFolder) -> dict[str, Any]:
    last, epoch = folder.rows[-1], PUBLISHED_EPOCH.get(folder.config.dataset, 0)
    changes = folder.column("weights_l1_change")
    return {
        "training": OWN,
        "model": folder.config.model,
        "learning_rate": folder.config.training.learning_rate,
        "epochs": len(changes),
        "loss": last["loss"],
        "validation_accuracy": None,
        "validation_f1": None,
        "test_accuracy": last["server_accuracy"],
        "test_f1": last["server_f1"],
        "weights_l1_change": changes[epoch - 1] if 0 < epoch <= len(changes) else None,
    }


def _row(grid: str, training: ArchivedTraining, dataset: str) -> dict[str, Any]:
    _, inner, name = training.name.rpartition("/")
    validation, test = training.last_on("validation"), training.last_on("test")
    return {
        "training": f"{grid}: {name}" if inner else grid,
        "model": training.model,
        "learning_rate": training.learning_rate,
        "epochs": training.epochs,
        "loss": training.loss[-1] if training.loss else None,
        "validation_accuracy": validation and validation.accuracy,
        "validation_f1": validation and validation.f1,
        "test_accuracy": test and test.accuracy,
        "test_f1": test and test.f1,
        "weights_l1_change": training.l1_change(PUBLISHED_EPOCH.get(dataset, 0)),
    }
