"""A centralised training beside those of the papers' authors, if the storage has an imported archive."""

from collections.abc import Iterator, Mapping
from math import nan
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.archive.training_records import ArchivedTraining, of_dataset
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.tables.epochs import cell
from fedgrid.tracking.tables.table import Cell, Column, Row, Table

PUBLISHED_EPOCH = {"mnist": 31, "fmnist": 41, "cifar10": 11, "pathmnist": 41, "bloodmnist": 41}
"""The epoch, counted from 1, of whose change of the L1 norm the published epsilon_1 is a tenth."""
COLUMNS = {
    "learning_rate": ("learning rate", "g"),
    "epochs": ("epochs", "g"),
    "loss": ("loss", ".4f"),
    "validation_accuracy": ("valid. accuracy", ".3f"),
    "validation_f1": ("valid. F1", ".3f"),
    "test_accuracy": ("test accuracy", ".3f"),
    "test_f1": ("test F1", ".3f"),
    "weights_l1_change": ("L1 change in epoch {}", ".4g"),
}
"""Column -> heading and format."""
CAPTION = (
    "After the last epoch. Test: here the whole official test set; the authors halved it, one half for the "
    "validation, and took MedMNIST's official sets, in files with exchanged names. A tenth of the absolute "
    "L1 change in that epoch is the published epsilon_1."
)


def beside(config: RunConfig, epochs: Mapping[str, Array], run_folder: Path) -> Iterator[Table]:
    """Yield a table of the training and the imported ones of its data set; none without any of these.

    `epochs` are the columns of the training, each of shape (E,); `run_folder` is in the storage's root.

    Raises:
        RunError: what was imported is damaged.
    """
    if imported := of_dataset(config.dataset, run_folder.parent):
        epoch = PUBLISHED_EPOCH.get(config.dataset, 0)
        shown = {name: COLUMNS[name] for name in COLUMNS if epoch or name != "weights_l1_change"}
        rows = {"this one": (config.model, _own(config, epochs, epoch))} | {
            _name(grid, training): (training.model or "", _of(training, epoch)) for grid, training in imported
        }
        yield Table(
            f"beside-{config.name}",
            f"Beside the authors' centralised trainings of {config.dataset}",
            CAPTION,
            (Column("model"), *(Column(heading.format(epoch)) for heading, _ in shown.values())),
            tuple(
                Row(name, (Cell(model), *(cell(values[key], kind) for key, (_, kind) in shown.items())))
                for name, (model, values) in rows.items()
            ),
            corner="training",
        )


def _name(grid: str, training: ArchivedTraining) -> str:
    _, inner, name = training.name.rpartition("/")
    return f"{grid}: {name}" if inner else grid


def _own(config: RunConfig, epochs: Mapping[str, Array], epoch: int) -> dict[str, float]:
    changes = epochs["weights_l1_change"]
    return {
        "learning_rate": config.training.learning_rate,
        "epochs": len(changes),
        "loss": float(epochs["loss"][-1]),
        "validation_accuracy": nan,
        "validation_f1": nan,
        "test_accuracy": float(epochs["server_accuracy"][-1]),
        "test_f1": float(epochs["server_f1"][-1]),
        "weights_l1_change": float(changes[epoch - 1]) if 0 < epoch <= len(changes) else nan,
    }


def _of(training: ArchivedTraining, epoch: int) -> dict[str, float]:
    validation, test = training.last_on("validation"), training.last_on("test")
    change = training.l1_change(epoch)
    return {
        "learning_rate": nan if training.learning_rate is None else training.learning_rate,
        "epochs": training.epochs,
        "loss": training.loss[-1] if training.loss else nan,
        "validation_accuracy": validation.accuracy if validation else nan,
        "validation_f1": validation.f1 if validation else nan,
        "test_accuracy": test.accuracy if test else nan,
        "test_f1": test.f1 if test else nan,
        "weights_l1_change": nan if change is None else change,
    }
