"""The preset `centralised`, and the epsilons that are proposed from it, as a user types them."""

import numpy as np
import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive.training_records import (
    FILE,
    ArchivedTraining,
    SetScores,
    compare_trainings,
    write_trainings,
)
from fedgrid.grids.epsilons.analysis import read_epochs
from fedgrid.grids.epsilons.rules import propose_settings
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.small_grid import NOWHERE

pytestmark = pytest.mark.usefixtures("in_mlflow")

SMALL = ("run", "centralised", "--in-process", "training.rounds=3", "--storage")
PROPOSE = ("analyse", "centralised", "epsilons", "--storage")
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


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A storage with a finished centralised training."""
    storage = new_storage(tmp_path_factory.mktemp("finished") / "runs")
    result = fedgrid(*SMALL, storage)
    assert (result.code, result.err) == (0, "")
    return storage


@pytest.fixture(scope="module")
def proposed(finished):
    """What the command prints of its only run."""
    [row] = strict_json(fedgrid(*PROPOSE, finished, "--json").out)["rows"]
    return {name.removeprefix("epsilons/"): value for name, value in row.items()}


def test_the_proposal_is_that_of_the_rules_of_thumb(finished, proposed):
    [folder] = finished.glob("digits-*")
    epochs = read_epochs(folder)
    assert epochs["epoch"].tolist() == [1, 2, 3]
    rules = propose_settings(epochs["update_l2"].tolist(), epochs["loss"].tolist())
    assert {name: proposed[name] for name in rules.settings} == rules.settings
    assert proposed["epsilon_1"] == float(f"{max(epochs['update_l2']) / 10:.3g}")
    assert proposed["epsilon_2"] == float(f"{max(epochs['update_l2']) / 2:.3g}")


def test_the_terminal_shows_epochs_the_proposal_and_options_to_paste(finished, proposed):
    out = " ".join(fedgrid(*PROPOSE, finished).out.split())
    for part in (
        "Epochs of digits-1-centralised-fedavg-s0",
        "by rules of thumb, to start a search from",
        f"algorithm.epsilon_1={proposed['epsilon_1']:g}",
        "already analysed",
    ):
        assert part in out
    assert "L2 of state" not in out
    assert "Beside" not in out


def test_the_preset_can_be_run_and_has_the_options(finished, proposed):
    [file] = finished.glob("*/epsilons/*.yaml")
    options = [f"algorithm.{name}={proposed[name]:g}" for name in ("epsilon_1", "epsilon_2", "cooldown")]
    [from_file] = load_grid(str(file), {}, [], NOWHERE).runs
    [from_options] = load_grid(None, {"algorithm": "sattler"}, options, NOWHERE).runs
    assert from_file == from_options
    assert from_file.algorithm.epsilon_1 == proposed["epsilon_1"]


def test_the_report_has_the_curves_and_the_table(finished, proposed):
    said = strict_json(fedgrid("report", "centralised", "--storage", finished, "--json").out)
    page = (finished / "grids" / "centralised" / "report" / "index.html").read_text()
    assert said["figures"] > 0
    assert "Epsilons from digits-1-centralised-fedavg-s0" in page
    assert f"epsilon_1 = {proposed['epsilon_1']:g}" in page
    assert "Loss and norms by epoch" in page


def test_imported_trainings_of_the_data_set_stand_beside_ones_own(finished):
    other = THEIRS.model_copy(update={"dataset": "mnist"})
    write_trainings([THEIRS, other], GridFolder(Storage(finished), "theirs"))
    out = " ".join(fedgrid(*PROPOSE, finished).out.split())
    (finished / "grids" / "theirs" / FILE).unlink()
    assert "Beside the authors' centralised trainings of digits" in out
    assert "theirs: Run_IX" in out
    assert "0.938" in out
    assert "L1 change in epoch" not in out, "the papers derived no epsilon from digits"


def test_the_change_of_the_l1_norm_is_that_of_the_published_epoch(tmp_path):
    """MNIST's 31st, which is 64.5 - 58."""
    norms = tuple(float(2 * epoch) for epoch in range(30)) + (58.0 + 6.5,)
    main = THEIRS.model_copy(update={"dataset": "mnist", "name": "centralised_test", "weights_l1": norms})
    write_trainings(
        [main, THEIRS.model_copy(update={"dataset": "mnist"})], GridFolder(Storage(tmp_path), "theirs")
    )
    [run] = load_grid("centralised", {"dataset": "mnist"}, [], NOWHERE).runs
    names = ("loss", "server_accuracy", "server_f1", "weights_l1_change")
    [table] = compare_trainings(run, {name: np.arange(40.0) for name in names}, tmp_path / "run")
    assert [row.name for row in table.rows] == ["this one", "theirs", "theirs: Run_IX"]
    assert table.columns[-1].name == "L1 change in epoch 31"
    assert [row.cells[-1].value for row in table.rows] == [30.0, 6.5, None]


def test_a_damaged_file_of_imported_trainings_is_named(finished):
    folder = GridFolder(Storage(finished), "theirs")
    folder.write_file(FILE, "{}\n")
    result = fedgrid(*PROPOSE, finished)
    (folder.path / FILE).unlink()
    assert result.code == 1
    assert f"{folder.path / FILE} is damaged: import the archive again" in result.err


def test_a_run_with_clients_is_refused(tmp_path):
    storage = new_storage(tmp_path / "runs")
    run = ("run", "--dataset", "digits", "--clients", 3, "--algorithm", "fedavg", "--name", "small")
    assert fedgrid(*run, "training.rounds=1", "--in-process", "--storage", storage).code == 0
    refused = fedgrid("analyse", "small", "epsilons", "--storage", storage)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "fedgrid run centralised --dataset digits" in refused.err


def test_a_training_without_progress_has_no_proposal(tmp_path):
    storage = new_storage(tmp_path / "runs")
    assert fedgrid(*SMALL, storage, "training.learning_rate=1e-30").code == 0
    result = fedgrid(*PROPOSE, storage)
    assert result.code == 1
    assert "never falls below that, so no settings can be proposed" in result.err
