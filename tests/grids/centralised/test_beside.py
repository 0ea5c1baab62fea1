"""The authors' centralised trainings beside one's own."""

from io import StringIO

from rich.console import Console

from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.archive.training_records import FILE, ArchivedTraining, SetScores, keep
from fedgrid.grids.centralised.beside import archived_rows, show_beside
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage, strict_json

SMALL = ("centralised", "digits", "--epochs", 2)
THEIRS = ArchivedTraining(
    dataset="digits",
    name="centralised_test/archive_runs/Run_IX",
    model="ResNet34",
    learning_rate=1e-4,
    loss=(1.5, 0.25),
    weights_l1=(100.0, 106.5),
    by_epoch=(SetScores(loss=1, accuracy=0.5, f1=0.5), SetScores(loss=1, accuracy=0.875, f1=0.75)),
    by_epoch_on="validation",
    final=SetScores(loss=1, accuracy=0.9375, f1=0.625),
)


def test_imported_trainings_of_the_data_set_stand_beside_ones_own(tmp_path):
    storage = new_storage(tmp_path / "runs")
    alone = strict_json(fedgrid(*SMALL, "--storage", storage, "--json").out)
    assert alone["beside"] == []
    assert "Beside" not in fedgrid(*SMALL, "--storage", storage).out
    other = THEIRS.model_copy(update={"dataset": "mnist"})
    keep([THEIRS, other], GridFolder(Storage(storage), "theirs"))
    own, imported = strict_json(fedgrid(*SMALL, "--storage", storage, "--json").out)["beside"]
    last = alone["epochs"][-1]
    assert own | {"weights_l1_change": None} == {
        "training": "this one",
        "model": "digitnet",
        "learning_rate": alone["training"]["learning_rate"],
        "epochs": 2,
        "loss": last["loss"],
        "validation_accuracy": None,
        "validation_f1": None,
        "test_accuracy": last["server_accuracy"],
        "test_f1": last["server_f1"],
        "weights_l1_change": None,
    }
    assert imported == {
        "training": "theirs: Run_IX",
        "model": "ResNet34",
        "learning_rate": 1e-4,
        "epochs": 2,
        "loss": 0.25,
        "validation_accuracy": 0.875,
        "validation_f1": 0.75,
        "test_accuracy": 0.9375,
        "test_f1": 0.625,
        "weights_l1_change": None,
    }
    out = fedgrid(*SMALL, "--storage", storage).out
    assert "Beside the authors' centralised trainings of digits" in out
    assert "0.938" in out
    assert "L1 change\nin" not in out, "the papers derived no epsilon from digits"


def test_main_training_of_a_data_set_is_called_by_its_grid_and_trials_by_their_folder(tmp_path):
    """And the L1 norm's change is of the epoch of the published epsilon: MNIST's 31st, which is 64.5 - 58."""
    norms = tuple(float(2 * epoch) for epoch in range(30)) + (58.0 + 6.5,)
    main = THEIRS.model_copy(update={"dataset": "mnist", "name": "centralised_test", "weights_l1": norms})
    trial = THEIRS.model_copy(update={"dataset": "mnist"})
    keep([main, trial], GridFolder(Storage(tmp_path), "theirs"))
    rows = archived_rows("mnist", Storage(tmp_path))
    assert [(row["training"], row["weights_l1_change"]) for row in rows] == [
        ("theirs", 6.5),
        ("theirs: Run_IX", None),
    ]
    out = Console(file=StringIO(), width=100)
    show_beside(rows, "mnist", out)
    assert "in epoch 31" in out.file.getvalue()


def test_damaged_file_of_imported_trainings_is_named(tmp_path):
    storage = new_storage(tmp_path / "runs")
    folder = GridFolder(Storage(storage), "theirs")
    folder.write(FILE, "{}\n")
    result = fedgrid(*SMALL, "--storage", storage)
    assert result.code == 1
    assert f"{folder.path / FILE} is damaged: import the archive again" in result.err
