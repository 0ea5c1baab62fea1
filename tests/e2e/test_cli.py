"""The README's commands, and runs on a user's own images, as typed.

`fedgrid ui` with a server: grids/following/test_follow.py.
"""

import socket

import numpy as np
import pytest
from PIL import Image

from fedgrid.engine.federation.data.made_by_code import MADE_BY_CODE
from fedgrid.grids.display import blueprint
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.manifests import list_finished

pytestmark = pytest.mark.usefixtures("in_mlflow")

SMALL = ("--clients", 3, "training.rounds=2", "--in-process")
AWAY = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""


@pytest.fixture
def storage(tmp_path):
    return new_storage(tmp_path / "runs")


@pytest.mark.parametrize("command", [[], ["run"], ["data"], ["list"], ["analyse"], ["ui"]])
def test_help_of_every_command_has_an_example(command):
    result = fedgrid(*command, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"Example: {' '.join(['fedgrid', *command])}" in " ".join(result.out.split())


def test_data_lists_the_data_sets(tmp_path):
    result = fedgrid("data", "--data-dir", tmp_path)
    assert result.code == 0
    for line in (
        "digits 1x8x8 10 1,442 yes",
        "cifar10 3x32x32 10 50,000 no (171 MB)",
        f"Data folder: {tmp_path}",
    ):
        assert line in " ".join(result.out.split())
    listed = strict_json(fedgrid("data", "--json", "--data-dir", tmp_path).out)
    here = {entry["name"] for entry in listed if entry["here"]}
    assert here == {"digits", *(dataset.name for dataset in MADE_BY_CODE)}


def test_data_shows_and_writes_the_split_of_a_scenario(tmp_path):
    result = fedgrid("data", "digits", "--clients", 5, "--csv", tmp_path / "x.csv")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("digits-5-nonoverlapping-balanced, seed 0: images per class\n")
    written = blueprint.read_blueprint(tmp_path / "x.csv")
    clients = strict_json(fedgrid("data", "digits", "--clients", 5, "--json").out)["clients"]
    assert [client["train"] for client in clients] == written.train_KL.tolist()
    assert [client["test"] for client in clients] == written.test_KL.tolist()


def test_data_shows_the_readmes_split_of_real_mnist(shared, tmp_path):
    if not (shared / "data" / "MNIST").is_dir():
        pytest.skip(f"no real images: {shared / 'data' / 'MNIST'} is missing")
    scenario = ("--split", "nonoverlapping-balanced", "--clients", 15)
    csv = tmp_path / "x.csv"
    result = fedgrid("data", "mnist", *scenario, "--csv", csv, FEDGRID_DATA=str(shared / "data"))
    assert (result.code, result.err) == (0, "")
    written = blueprint.read_blueprint(csv)
    assert written.server_L.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert written.train_KL.shape == (15, 10)
    assert ((written.train_KL > 0).sum(axis=1) == [4] * 5 + [3] * 10).all()


def test_algorithms_and_models_are_listed_with_their_sources():
    for kind, name in (("algorithms", "ocfl-hdbscan"), ("models", "tinyvgg")):
        listed = strict_json(fedgrid("list", kind, "--json").out)
        assert name in [entry["name"] for entry in listed]
        assert all(entry["summary"] and entry["source"] for entry in listed)
        shown = fedgrid("list", kind).out
        assert all(entry["name"] in shown for entry in listed)


@pytest.fixture
def image_folder(tmp_path):
    """Three classes of 9x9 noise, each with a colour of its own; brackets in the path."""
    random = np.random.default_rng(0)
    for part, count in (("train", 30), ("test", 6)):
        for channel, name in enumerate(("ant", "bee", "cat")):
            folder = tmp_path / "my [images]" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 60, (9, 9, 3), np.uint8)
                pixels[:, :, channel] += 150
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "my [images]"


def test_run_on_an_image_folder(image_folder, storage):
    result = fedgrid("run", "--dataset", f"folder:{image_folder}", *SMALL, "--storage", storage)
    assert (result.code, result.err) == (0, "")
    assert "-ocfl_hdbscan-s0 round 2/2 " in result.out
    assert "Final round, folder_my [images]-3-nonoverlapping-balanced, seed 0" in result.out


def test_run_on_an_npz_file(storage, tmp_path):
    labels = np.arange(90)[:, None] % 3
    images = np.zeros((90, 9, 9), np.uint8) + 80 * labels[:, :, None].astype(np.uint8)
    images[:, 0, 0] = np.arange(90)
    parts = {"train": slice(0, 60), "val": slice(60, 75), "test": slice(75, 90)}
    arrays = {f"{part}_images": images[rows] for part, rows in parts.items()}
    np.savez(
        tmp_path / "my.npz", **arrays, **{f"{part}_labels": labels[rows] for part, rows in parts.items()}
    )
    result = fedgrid("run", "--dataset", f"npz:{tmp_path / 'my.npz'}", *SMALL, "--storage", storage, "--json")
    assert (result.code, result.err) == (0, "")
    assert [event["event"] for event in result.events] == ["start", "round", "round", "result"]
    assert result.events[-1]["scenario"] == "npz_my-3-nonoverlapping-balanced"


def test_run_of_a_grid_file_with_options_that_override_it(storage, tmp_path):
    (tmp_path / "my-run.yaml").write_text("clients: 3\nalgorithm: [fedavg, sattler]\ntraining: {rounds: 9}\n")
    result = fedgrid("run", tmp_path / "my-run.yaml", *SMALL, "--seed", 7, "--storage", storage)
    assert result.code == 0
    for line in (
        "-fedavg-s7 round 2/2 ",
        "-sattler-s7 round 2/2 ",
        "digits-3-nonoverlapping-balanced, seed 7",
    ):
        assert line in result.out


def test_run_without_a_reachable_mlflow_server_warns_and_finishes(tmp_path):
    storage = tmp_path / "runs [1]"
    away = AWAY.replace("//", "//me:secret@")
    result = fedgrid("run", *SMALL, "--storage", storage, MLFLOW_TRACKING_URI=away)
    assert result.code == 0
    assert "secret" not in result.out + result.err
    first, second = result.err.splitlines()
    assert first.startswith("warning: ")
    assert AWAY.replace("//", "//***@") in first
    assert second.startswith("warning: ")
    assert "`fedgrid sync runs --storage " in second
    assert f" {storage} " in result.out
    assert f"  fedgrid ui runs --storage '{storage}'\n" in result.out
    assert len(list_finished(storage)) == 1


def test_ui_on_a_port_in_use_is_one_line(storage):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = fedgrid("ui", "--storage", storage, "--port", port)
    assert (result.code, "MLflow at" in result.out) == (2, False)
    assert result.err.startswith("fedgrid: ")
    assert f"http://127.0.0.1:{port} " in result.err
    assert result.err.count("\n") == 1


def test_run_of_the_readme_on_real_mnist_made_small(shared, storage):
    if not (shared / "data" / "MNIST").is_dir():
        pytest.skip(f"no real images: {shared / 'data' / 'MNIST'} is missing")
    scenario = ("--split", "overlapping-imbalanced", "--clients", 30)
    small = [
        f"{change}"
        for change in (
            "training.rounds=1",
            "training.local_epochs=1",
            "split.draws=10",
            "split.server_images=9",
        )
    ]
    result = fedgrid(
        *("run", "--dataset", "mnist", *scenario, "--algorithm", "ocfl-hdbscan", "--seed", 3, *small),
        *("--in-process", "--json", "--storage", storage, "--data-dir", shared / "data"),
    )
    assert (result.code, "window 1 acts from round 2 on" in result.err) == (0, True)
    assert result.events[-1]["run"] == "mnist-30-overlapping-imbalanced-ocfl_hdbscan-s3"
