"""The archive's centralised trainings: what their files say, also of those that we have a copy of."""

import pytest

from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive import layout
from fedgrid.grids.archive.training_records import (
    ArchivedTraining,
    SetScores,
    load_trainings,
    read_training,
    write_trainings,
)
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.reference import ARCHIVE
from tests.helpers.small_archive import replace_text, truncate_file, write_centralised

FIRST = SetScores(loss=0.5, accuracy=0.75, f1=0.625)
SECOND = SetScores(loss=0.25, accuracy=0.875, f1=0.8125)
FINAL = SetScores(loss=0.375, accuracy=0.9375, f1=0.5)


def only(archive):
    [found] = layout.find_trainings(archive)
    return found


def test_training_has_losses_norms_and_scores(tmp_path):
    write_centralised(tmp_path)
    assert read_training(only(tmp_path)) == ArchivedTraining(
        dataset="mnist",
        name="centralised_test",
        loss=(1.5, 0.5),
        weights_l1=(100.0, 106.5),
        by_epoch=(FIRST, SECOND),
        by_epoch_on="validation",
        final=FINAL,
    )


def test_the_change_of_the_norm_is_of_an_epoch_and_not_of_the_first(tmp_path):
    write_centralised(tmp_path)
    training = read_training(only(tmp_path))
    assert [training.compute_l1_change(epoch) for epoch in (0, 1, 2, 3)] == [None, None, 6.5, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"model": "ResNet34", "learning_rate": 1e-4}', ("ResNet34", 1e-4)),
        (
            '{"model": {"architecture": "CNN"}, "centralised_setup": {"local_learning_rate": 0.01}}',
            ("CNN", 0.01),
        ),
        ("{}", (None, None)),
    ],
)
def test_learning_rate_and_model_are_in_either_form_of_the_configuration(tmp_path, text, expected):
    (write_centralised(tmp_path) / "config.json").write_text(text)
    training = read_training(only(tmp_path))
    assert (training.model, training.learning_rate) == expected


@pytest.mark.parametrize("text", ["{", "3"])
def test_configuration_that_is_no_json_object_is_malformed(tmp_path, text):
    path = write_centralised(tmp_path) / "config.json"
    path.write_text(text)
    with pytest.raises(DataError, match="config.json cannot be read: .*; expected a JSON object"):
        read_training(only(tmp_path))


@pytest.mark.parametrize(
    ("dataset", "validation", "test"),
    [("PATHMNIST", FINAL, SECOND), ("BLOODMNIST", FINAL, SECOND), ("CIFAR10", SECOND, FINAL)],
)
def test_medmnists_file_names_are_exchanged_and_the_others_are_not(tmp_path, dataset, validation, test):
    write_centralised(tmp_path, dataset, "archive_runs/Run_I")
    training = read_training(only(tmp_path))
    assert (training.find_last_scores("validation"), training.find_last_scores("test")) == (validation, test)


@pytest.mark.parametrize(
    ("absent", "expected"),
    [
        ("training_loss.csv", {"loss": (), "weights_l1": ()}),
        ("validation_results.csv", {"by_epoch": ()}),
        ("final_test.csv", {"final": None}),
    ],
)
def test_absent_file_leaves_its_numbers_out(tmp_path, absent, expected):
    (write_centralised(tmp_path) / absent).unlink()
    training = read_training(only(tmp_path))
    assert {name: getattr(training, name) for name in expected} == expected
    assert training.epochs == 2


@pytest.mark.parametrize(
    ("file", "line", "old", "new", "message"),
    [
        ("training_loss.csv", 3, "1,0.5", "2,0.5", "3: iteration 2; expected 1: each from 0 on"),
        ("training_loss.csv", 1, "weights_norm", "norm", "1: 0 columns 'weights_norm'"),
        ("validation_results.csv", 2, "0.75", "75", "2: accuracy '75'; expected a number from 0 to 1"),
        ("final_test.csv", 2, "0.9375", "nan", "2: accuracy 'nan'"),
    ],
)
def test_malformed_file_is_an_error_with_file_and_line(tmp_path, file, line, old, new, message):
    folder = write_centralised(tmp_path)
    replace_text(folder / file, line, old, new)
    with pytest.raises(DataError) as caught:
        read_training(only(tmp_path))
    assert f"{folder / file}:{message}" in str(caught.value)


def test_second_final_test_is_malformed_and_none_is_absent(tmp_path):
    path = write_centralised(tmp_path) / "final_test.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    with pytest.raises(DataError, match=r"final_test.csv:3: 2 rows; expected one"):
        read_training(only(tmp_path))
    truncate_file(path, 1)
    assert read_training(only(tmp_path)).final is None


def test_stored_trainings_are_found_by_data_set_with_their_grid(tmp_path):
    storage = Storage(tmp_path / "runs")
    write_centralised(tmp_path)
    write_centralised(tmp_path, "BLOODMNIST", "trial")
    trainings = [read_training(each) for each in layout.find_trainings(tmp_path)]
    write_trainings(trainings, GridFolder(storage, "theirs"))
    assert load_trainings("mnist", storage.root) == [("theirs", trainings[0])]
    assert load_trainings("bloodmnist", storage.root) == [("theirs", trainings[1])]
    assert load_trainings("cifar10", storage.root) == []


@pytest.fixture(scope="module")
def theirs():
    """The trainings of the part of the archive that we have, by data set."""
    if not ARCHIVE.is_dir():
        pytest.skip("NOT CHECKED AGAINST THE AUTHORS' FULL ARCHIVE: shared/reference is missing")
    trainings = map(read_training, layout.find_trainings(ARCHIVE))
    return {training.dataset: training for training in trainings}


@pytest.mark.parametrize(
    ("dataset", "test", "validation", "epoch", "epsilon_1"),
    [
        ("mnist", (0.9900, 0.9899), (0.9918, 0.9918), 31, 6.06),
        ("cifar10", (0.8780, 0.8779), (0.8748, 0.8739), 11, -185.1),
    ],
)
def test_the_authors_accuracies_and_epsilons_are_those_that_the_papers_quote(
    theirs, dataset, test, validation, epoch, epsilon_1
):
    """epsilon_1 is a tenth of the change of the L1 norm: in the papers' tables 6.06 and 185."""
    training = theirs[dataset]
    assert (training.epochs, training.learning_rate) == (80, {"mnist": 0.01, "cifar10": 0.005}[dataset])
    for images, expected in (("test", test), ("validation", validation)):
        scores = training.find_last_scores(images)
        assert (scores.accuracy, scores.f1) == pytest.approx(expected, abs=5e-5)
    assert training.compute_l1_change(epoch) / 10 == pytest.approx(epsilon_1, abs=0.05)
