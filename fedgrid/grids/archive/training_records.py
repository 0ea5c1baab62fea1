"""The OCFL authors' centralised trainings: the accuracies and norms of weights that the papers quote.

An imported grid has them in `centralised.json`; `fedgrid analyse GRID epsilons` compares the user's with
them. In the archive, a training's folder has `training_loss.csv` and `validation_results.csv`, a row for each
epoch, and `final_test.csv`, a single row. The official test images were halved, one half for each of the last
two. With MedMNIST their names are exchanged: `final_test.csv` is of the official validation images.
`config.json` has the learning rate and the model, in two forms.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from fedgrid.algorithms.contract.section import Section
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import DataError, RunError
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal_file
from fedgrid.grids.archive.csv_files import CsvTable, build_line_error
from fedgrid.grids.archive.layout import FINAL, LOSS, SETUP, VALIDATION, TrainingFiles
from fedgrid.grids.results.grid_folder import GRIDS, GridFolder
from fedgrid.regular_files import read_file
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.tables.epochs import build_cell
from fedgrid.tracking.tables.table import Cell, Column, Row, Table

FILE = "centralised.json"
TestSet = Literal["validation", "test"]


class SetScores(Section):
    """Scores on one set of images."""

    loss: float
    accuracy: float
    f1: float
    """Macro average of the classes' F1."""


class ArchivedTraining(Section):
    """One centralised training. Tuples have a value for each epoch, none if the file is absent.

    It is written to the grid's folder as JSON.
    """

    dataset: str
    name: str
    """Its folder in the archive, as `centralised_test`."""
    model: str | None = None
    """Name that the authors give the model."""
    learning_rate: float | None = None
    loss: tuple[float, ...] = ()
    """Mean cross-entropy while the model changes."""
    weights_l1: tuple[float, ...] = ()
    """L1 norm of the weights after the epoch."""
    by_epoch: tuple[SetScores, ...] = ()
    """Scores on one of the two sets after each epoch."""
    by_epoch_on: TestSet
    """Name of that set."""
    final: SetScores | None = None
    """Scores on the other set after the last epoch."""

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return max(len(self.loss), len(self.by_epoch))

    def find_last_scores(self, images: TestSet) -> SetScores | None:
        """Find the scores of the last epoch on a set, None if they are absent."""
        if images != self.by_epoch_on:
            return self.final
        return self.by_epoch[-1] if self.by_epoch else None

    def compute_l1_change(self, epoch: int) -> float | None:
        """Compute the change of the L1 norm in an epoch, counted from 1.

        Returns:
            The change; None in the first epoch, or without the norms.
        """
        if not 1 < epoch <= len(self.weights_l1):
            return None
        return self.weights_l1[epoch - 1] - self.weights_l1[epoch - 2]


def write_trainings(trainings: Iterable[ArchivedTraining], grid: GridFolder) -> None:
    """Write the trainings into the folder of an imported grid.

    Raises:
        RunError: They cannot be written.
    """
    grid.write_file(
        FILE, seal_values({"trainings": [training.model_dump(mode="json") for training in trainings]})
    )


def load_trainings(dataset: str, root: Path) -> list[tuple[str, ArchivedTraining]]:
    """Load every training of a data set that was imported into the storage at `root`, each with its grid.

    Raises:
        RunError: A file is damaged.
        ConfigError: Another version of fedgrid wrote it.
    """
    named = []
    for path in sorted((root / GRIDS).glob(f"*/{FILE}")):
        try:
            trainings = [ArchivedTraining.model_validate(values) for values in unseal_file(path)["trainings"]]
        except (DamagedFile, ValidationError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: import the archive again") from error
        named += [(path.parent.name, training) for training in trainings if training.dataset == dataset]
    return named


EXCHANGED = ("pathmnist", "bloodmnist")
"""Data sets whose two files have each other's name, see above."""
SCORE_COLUMNS = ("test_loss", "accuracy", "f1score")
"""Columns of scores in the archive's files."""


def read_training(training: TrainingFiles) -> ArchivedTraining:
    """Read one training.

    Raises:
        DataError: A file is malformed; the message names the file and the line.
    """
    losses = _read_table(training.folder / LOSS, ("loss", "weights_norm"))
    by_epoch = _read_table(training.folder / VALIDATION, SCORE_COLUMNS)
    final = _read_table(training.folder / FINAL, SCORE_COLUMNS, counts=False)
    last = _parse_scores(final)
    if len(last) > 1:
        raise build_line_error(training.folder / FINAL, 3, f"{len(last)} rows", "one, of the last epoch")
    return ArchivedTraining(
        dataset=training.dataset,
        name=training.name,
        **_read_setup(training.folder / SETUP),
        loss=_parse_column(losses, "loss"),
        weights_l1=_parse_column(losses, "weights_norm", least=0),
        by_epoch=_parse_scores(by_epoch),
        by_epoch_on="test" if training.dataset in EXCHANGED else "validation",
        final=last[0] if last else None,
    )


def _read_setup(path: Path) -> dict[str, Any]:
    """Read the model and the learning rate, None where the file or the key is absent."""
    try:
        config = dict(json.loads(read_file(path))) if path.exists() else {}
    # json raises RecursionError for lists that are nested too deeply.
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}; expected a JSON object") from error
    model, inner = config.get("model"), config.get("centralised_setup")
    rate = config.get("learning_rate", inner.get("local_learning_rate") if isinstance(inner, dict) else None)
    name = model.get("architecture") if isinstance(model, dict) else model
    if not isinstance(name, str | None) or not isinstance(rate, float | int | None):
        raise DataError(f"{path}: expected a name as model, and a number as learning rate")
    return {"model": name, "learning_rate": rate}


def _read_table(path: Path, columns: Sequence[str], *, counts: bool = True) -> CsvTable | None:
    """Read a file, None if it is absent.

    Args:
        path: The file.
        columns: Titles of its columns.
        counts: Whether it has a row for each epoch, counted from 0; True by default.
    """
    if not path.exists():
        return None
    table = CsvTable(path, ("iteration", *columns))
    if counts:
        table.check_counts("iteration")
    return table


def _parse_column(
    table: CsvTable | None, name: str, *, least: float = -inf, most: float = inf
) -> tuple[float, ...]:
    """Parse a column of numbers, empty without a table."""
    if table is None:
        return ()
    return tuple(table.parse_column(name, least=least, most=most, may_lack=False).tolist())


def _parse_scores(table: CsvTable | None) -> tuple[SetScores, ...]:
    """Parse the scores of each row."""
    loss, accuracy, f1 = SCORE_COLUMNS
    columns = (
        _parse_column(table, loss),
        _parse_column(table, accuracy, least=0, most=1),
        _parse_column(table, f1, least=0, most=1),
    )
    return tuple(SetScores(loss=row[0], accuracy=row[1], f1=row[2]) for row in zip(*columns, strict=True))


PUBLISHED_EPOCH = {"mnist": 31, "fmnist": 41, "cifar10": 11, "pathmnist": 41, "bloodmnist": 41}
"""Data set -> epoch, counted from 1, of whose change of the L1 norm the published epsilon_1 is a tenth."""
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


def compare_trainings(config: RunConfig, epochs: Mapping[str, Array], run_folder: Path) -> Iterator[Table]:
    """Yield a table that compares a training with the imported ones of its data set, if there are any.

    Args:
        config: The training's run.
        epochs: Columns of the training, each of shape (E,).
        run_folder: Folder of the run in the storage's root.

    Raises:
        RunError: An imported file is damaged.
    """
    if imported := load_trainings(config.dataset, run_folder.parent):
        # Without a published epsilon there is no epoch to compare, and the column is left out.
        epoch = PUBLISHED_EPOCH.get(config.dataset, 0)
        shown = {name: COLUMNS[name] for name in COLUMNS if epoch or name != "weights_l1_change"}
        rows = {"this one": (config.model, _own_cells(config, epochs, epoch))} | {
            _format_name(grid, training): (training.model or "", _archived_cells(training, epoch))
            for grid, training in imported
        }
        yield Table(
            f"beside-{config.name}",
            f"Beside the authors' centralised trainings of {config.dataset}",
            CAPTION,
            (Column("model"), *(Column(heading.format(epoch)) for heading, _ in shown.values())),
            tuple(
                Row(name, (Cell(model), *(build_cell(values[key], kind) for key, (_, kind) in shown.items())))
                for name, (model, values) in rows.items()
            ),
            corner="training",
        )


def _format_name(grid: str, training: ArchivedTraining) -> str:
    """Format the name of an imported training."""
    _, inner, name = training.name.rpartition("/")
    return f"{grid}: {name}" if inner else grid


def _own_cells(config: RunConfig, epochs: Mapping[str, Array], epoch: int) -> dict[str, float]:
    """Collect the numbers of the user's training."""
    changes = epochs["weights_l1_change"]
    return {
        "learning_rate": config.training.learning_rate,
        "epochs": len(changes),
        "loss": float(epochs["loss"][-1]),
        # fedgrid's centralised training has no validation images.
        "validation_accuracy": nan,
        "validation_f1": nan,
        "test_accuracy": float(epochs["server_accuracy"][-1]),
        "test_f1": float(epochs["server_f1"][-1]),
        "weights_l1_change": float(changes[epoch - 1]) if 0 < epoch <= len(changes) else nan,
    }


def _archived_cells(training: ArchivedTraining, epoch: int) -> dict[str, float]:
    """Collect the numbers of an imported training, NaN where one is absent."""
    validation, test = training.find_last_scores("validation"), training.find_last_scores("test")
    change = training.compute_l1_change(epoch)
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
