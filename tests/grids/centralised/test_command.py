"""`fedgrid centralised` as a user types it: once and for all, the same bytes, and a preset that runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.format import unseal
from fedgrid.engine.integrity import made_with
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.centralised import folder
from fedgrid.grids.presets.load import load_grid
from tests.helpers.command_line import fedgrid, new_storage, strict_json

SMALL = ("centralised", "digits", "--epochs", 3)
NAME = "digits-digitnet-s0"


def write_images(path, seed):
    """Write forty images of two classes to train on, and ten at the server."""
    rng, arrays = np.random.default_rng(seed), {}
    for part, number in (("train", 40), ("test", 10)):
        labels = np.arange(number) % 2
        pixels = rng.integers(0, 100, (number, 8, 8)) + 100 * labels[:, None, None]
        arrays |= {f"{part}_images": pixels.astype(np.uint8), f"{part}_labels": labels}
    np.savez(path, **arrays)


def files_of(storage):
    """Return name -> bytes of what the storage has of its only centralised training, without MLflow's id."""
    [folder] = (storage / "centralised").iterdir()
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != "mlflow.json"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a storage with a finished training, and the output of the command."""
    storage = new_storage(tmp_path_factory.mktemp("finished"))
    result = fedgrid(*SMALL, "--storage", storage)
    assert (result.code, result.err) == (0, "")
    return storage, result.out


def test_centralised_training_shows_and_writes_its_proposal(finished):
    storage, out = finished
    assert sorted(files_of(storage)) == [
        "config.json",
        "epochs.parquet",
        "figures/update_norms.png",
        "figures/update_norms.svg",
        "made_with.json",
        "proposal.yaml",
    ]
    assert out.startswith("epoch 1/3 loss ")
    assert out.splitlines()[3].strip() == "digits-digitnet-s0: 3 epochs on 1,442 images"
    for part in (
        "update L2: Euclidean norm",
        "by rules of thumb, to start a search from",
        "--set algorithm.epsilon_1=",
    ):
        assert part in out
    assert "of state" not in out


def test_finished_training_is_shown_and_not_repeated(finished, monkeypatch):
    storage, out = finished
    before = files_of(storage)
    monkeypatch.setattr("fedgrid.engine.centralised.prepare", None)
    again = fedgrid(*SMALL, "--storage", storage)
    assert (again.code, again.err) == (0, "")
    assert again.out.splitlines() == [*out.splitlines()[3:], "already finished"]
    assert files_of(storage) == before


def test_centralised_training_as_json(finished):
    """The proposal is a tenth of the largest norm, and five times that, to three digits."""
    storage, _ = finished
    output = strict_json(fedgrid(*SMALL, "--storage", storage, "--json").out)
    assert [row["epoch"] for row in output["epochs"]] == [1, 2, 3]
    largest = max(row["update_l2"] for row in output["epochs"])
    assert output["proposal"]["epsilon_1"] == float(f"{largest / 10:.3g}")
    assert output["proposal"]["epsilon_2"] == float(f"{largest / 2:.3g}")
    assert output["proposal"]["epsilon_2_range"] == [float(f"{largest / 10:.3g}"), float(f"{largest:.3g}")]
    assert output["options"].split()[::2] == ["--set"] * 3
    assert (output["was_finished"], output["mlflow"]) == (True, True)
    assert output["folder"] == str(next((storage / "centralised").iterdir()))


def test_proposal_is_a_preset_and_fits_the_printed_options(finished):
    storage, _ = finished
    output = strict_json(fedgrid(*SMALL, "--storage", storage, "--json").out)
    expected = {key: value for key, value in output["proposal"].items() if key != "epsilon_2_range"}
    [from_file] = load_grid(f"{output['folder']}/proposal.yaml", {}, [], Path("nowhere")).runs
    changes = output["options"].split()[1::2]
    [from_options] = load_grid(None, {"algorithm": "sattler"}, changes, Path("nowhere")).runs
    for run in (from_file, from_options):
        assert {key: run.algorithm[key] for key in expected} == expected
    assert from_file == from_options


def interrupted(storage):
    """Return the result of the command that Ctrl-C ends after the first epoch."""
    save = folder.CentralisedFolder.save

    def save_and_stop(self, progress, row):
        save(self, progress, row)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(folder.CentralisedFolder, "save", save_and_stop)
        return fedgrid(*SMALL, "--storage", storage)


def test_interrupted_training_resumes_to_the_same_bytes(finished, tmp_path, monkeypatch):
    storage = new_storage(tmp_path / "runs")
    save = folder.CentralisedFolder.save
    stopped = interrupted(storage)
    assert stopped.code == 130
    assert "the same command continues" in stopped.err
    assert {"epochs.parquet", "state-000001.safetensors"} < set(files_of(storage))
    saved = []
    monkeypatch.setattr(
        folder.CentralisedFolder,
        "save",
        lambda self, progress, row: saved.append(row["epoch"]) or save(self, progress, row),
    )
    assert fedgrid(*SMALL, "--storage", storage).code == 0
    assert saved == [2, 3]
    assert files_of(storage) == files_of(finished[0])


def test_interrupted_training_at_a_uri_resumes_on_another_machine(finished, tmp_path, monkeypatch):
    """The second machine has only what is at the URI: the first epoch's state and records."""
    uri = f"local://{tmp_path / 'bucket'}"
    mlflow = f"sqlite:///{tmp_path / 'mlflow.db'}"

    def run(machine):
        return fedgrid(
            *SMALL, "--storage", uri, FEDGRID_CACHE=str(tmp_path / machine), MLFLOW_TRACKING_URI=mlflow
        )

    save = folder.CentralisedFolder.save

    def save_and_stop(self, progress, row):
        save(self, progress, row)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(folder.CentralisedFolder, "save", save_and_stop)
        assert run("here").code == 130
    assert {"epochs.parquet", "state-000001.safetensors"} < set(files_of(tmp_path / "bucket"))
    saved = []
    monkeypatch.setattr(
        folder.CentralisedFolder,
        "save",
        lambda self, progress, row: saved.append(row["epoch"]) or save(self, progress, row),
    )
    there = run("there")
    assert (there.code, there.err) == (0, "")
    assert saved == [2, 3]
    assert files_of(tmp_path / "bucket") == files_of(finished[0])
    assert not list((tmp_path / "bucket" / "drivers").iterdir())
    saved.clear()
    assert run("anywhere").code == 0
    assert saved == []


def test_training_is_refused_while_another_driver_does_it(tmp_path):
    storage = new_storage(tmp_path / "runs")
    with Lease(Storage.of(storage), NAME):
        refused = fedgrid(*SMALL, "--storage", storage)
    assert (refused.code, refused.out) == (2, "")
    assert f"is in use: grid {NAME}" in refused.err
    assert not (storage / "centralised").exists()


def test_training_that_has_lost_its_lease_ends_and_leaves_the_new_one_alone(tmp_path, monkeypatch):
    storage, check = new_storage(tmp_path / "runs"), Lease.check
    other = json.dumps({"token": "other", "what": "theirs"})

    def taken_over(lease):
        [held] = (storage / "drivers").iterdir()
        held.write_text(other)
        lease.renew()
        check(lease)

    monkeypatch.setattr(Lease, "check", taken_over)
    ended = fedgrid(*SMALL, "--storage", storage)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("fedgrid: another fedgrid has taken over this storage")
    assert ended.err.count("\n") == 1
    [held] = (storage / "drivers").iterdir()
    assert held.read_text() == other
    assert not list(storage.glob("centralised/*/epochs.parquet"))


def test_damaged_records_are_computed_again(finished, tmp_path):
    storage = new_storage(tmp_path / "runs")
    assert fedgrid(*SMALL, "--storage", storage).code == 0
    [records] = storage.glob("centralised/*/epochs.parquet")
    records.write_bytes(records.read_bytes()[:100])
    assert fedgrid(*SMALL, "--storage", storage).code == 0
    assert files_of(storage) == files_of(finished[0])


def parts(storage):
    [path] = storage.glob("centralised/*/made_with.json")
    return unseal(path)["parts"]


def test_other_images_under_one_name_are_another_training(tmp_path):
    storage, images = new_storage(tmp_path / "runs"), tmp_path / "mine.npz"
    command = ("centralised", f"npz:{images}", "--model", "digitnet", "--epochs", 2, "--storage", storage)
    for seed in (0, 1):
        write_images(images, seed=seed)
        assert fedgrid(*command).code == 0
    one, other = (path.read_bytes() for path in storage.glob("centralised/npz_mine-*/epochs.parquet"))
    assert one != other
    whole = fedgrid(*command, "--json")
    assert (whole.code, strict_json(whole.out)["was_finished"]) == (0, True)


def test_other_torch_is_refused_unless_accepted_and_then_noted(tmp_path, monkeypatch):
    storage = new_storage(tmp_path / "runs")
    assert interrupted(storage).code == 130
    before, [first] = files_of(storage), parts(storage)
    versions = made_with._versions()
    monkeypatch.setattr(made_with, "_versions", lambda: {**versions, "torch": "99.1"})
    refused = fedgrid(*SMALL, "--storage", storage)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "now 99.1: digits-digitnet-s0; --accept-changes" in refused.err
    assert files_of(storage) == before
    accepted = fedgrid(*SMALL, "--storage", storage, "--accept-changes")
    assert accepted.code == 0
    assert "warning: accepted: made with torch" in accepted.err
    assert parts(storage) == [first, {**first, "from_round": 2, "torch": "99.1"}]


def test_damaged_note_of_what_a_training_was_made_with_is_refused_unless_accepted(tmp_path):
    storage = new_storage(tmp_path / "runs")
    assert fedgrid(*SMALL, "--storage", storage).code == 0
    [path] = storage.glob("centralised/*/made_with.json")
    path.write_bytes(path.read_bytes()[:50])
    refused = fedgrid(*SMALL, "--storage", storage)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert f"{path} is damaged" in refused.err
    assert "--accept-changes" in refused.err
    assert fedgrid(*SMALL, "--storage", storage, "--accept-changes").code == 0


def test_mlflow_gets_the_epochs_later_if_it_was_unreachable(tmp_path):
    from mlflow.tracking import MlflowClient

    storage = new_storage(tmp_path / "runs")
    away = fedgrid(*SMALL, "--storage", storage, "--json", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert away.code == 0
    assert "the same command logs it when MLflow is back" in away.err
    assert not strict_json(away.out)["mlflow"]
    output = strict_json(fedgrid(*SMALL, "--storage", storage, "--json").out)
    assert (output["was_finished"], output["mlflow"]) == (True, True)
    client = MlflowClient(f"sqlite:///{storage}/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("centralised").experiment_id])
    assert run.info.status == "FINISHED"
    norms = client.get_metric_history(run.info.run_id, "update_l2")
    assert [(point.step, point.value) for point in norms] == [
        (row["epoch"], row["update_l2"]) for row in output["epochs"]
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["digit"], "unknown dataset 'digit'; did you mean 'digits'"),
        (["digits", "--epochs", "1"], "Invalid value for '--epochs'"),
        (["digits", "--model", "vgg"], "unknown model 'vgg'"),
        (["digits", "--seed", "-1"], "seed = -1"),
        (
            ["digits", "--set", "clients=5"],
            "only model and training.KEY to set, as in training.learning_rate",
        ),
        (["digits", "--set", "training=5"], "only model and training.KEY to set"),
        (["digits", "--set", "training.rounds=5"], "training.rounds has no effect here"),
        (["digits", "--set", "training.learning_rate=fast"], "training.learning_rate = 'fast'"),
        (["npz:missing.npz"], "missing.npz"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = fedgrid("centralised", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_training_without_progress_has_no_proposal(tmp_path):
    result = fedgrid(
        *SMALL, "--set", "training.learning_rate=1e-30", "--storage", new_storage(tmp_path / "x")
    )
    assert result.code == 1
    assert "never falls below that, so no settings can be proposed" in result.err


def test_help_of_centralised_has_an_example():
    assert "Example: fedgrid centralised mnist" in " ".join(fedgrid("centralised", "--help").out.split())
