"""Tables with numbers to predict in place of classes, from file to scores."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.tracking.records import read_records
from fedgrid.tracking.scoring.scores import compute_curves, score_run
from tests.helpers.command_line import fedgrid, strict_json
from tests.helpers.small_runs import play


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Six clients of forty rows: y = 300 + s (20 a - 10 b) with noise; s is 1 in group 0, -1 in group 1.

    The column z is of all clients alike: 7 + 2 a - b with noise.
    """
    rng = np.random.default_rng(0)
    a, b, *noise = rng.normal(size=(4, 240))
    client = np.arange(240) % 6
    y = 300 + np.where(client < 3, 1, -1) * (20 * a - 10 * b) + noise[0]
    z = 7 + 2 * a - b + noise[1] / 2
    path = tmp_path_factory.mktemp("numbers") / "t.csv"
    header = "a,b,y,z,client,group"
    rows = np.column_stack([a, b, y, z, client, client // 3])
    np.savetxt(path, rows, "%.6g", ",", header=header, comments="")
    return path


def test_a_linear_model_becomes_that_of_least_squares(table, tmp_path):
    """Clients of equal size, one epoch of one batch: rounds are steps of gradient descent."""
    settings = {"rounds": 20, "local_epochs": 1, "batch_size": 64, "learning_rate": 0.3}
    values = {"dataset": f"csv:{table}#target=z,drop=y,drop=group", "split": "iid", "clients": 6}
    config = complete_config(
        {**values, "algorithm": "fedavg", "model": "linear", "training": settings}, tmp_path
    )
    folder = play(config, tmp_path, cache=None)
    setup, _ = prepare_setup(config, tmp_path)
    trained = [client.train for client in setup.clients]
    assert {len(train) for train in trained} == {22}
    inputs, targets = (
        np.concatenate([getattr(train, what) for train in trained]) for what in ("images", "labels")
    )
    assert (targets.mean(), targets.std()) == pytest.approx((0, 1), abs=1e-6)
    by = setup.normalised_by
    rows = np.column_stack([(inputs - by.means) / by.deviations, np.ones(len(inputs))])
    expected, *_ = np.linalg.lstsq(rows, targets.astype(np.float64), rcond=None)
    state = load_file(folder / "state-000020.safetensors")
    [model] = [tensor.ravel() for tensor in state.values() if tensor.size == 3 and tensor.dtype == np.float32]
    assert model.tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    of_first = pq.read_table(folder / "clients.parquet").to_pylist()[-6]
    test = setup.clients[0].test
    tested = np.column_stack([(test.images - by.means) / by.deviations, np.ones(len(test))])
    squares = (test.labels - tested @ expected) ** 2
    assert of_first["personalised_loss"] == pytest.approx(squares.mean(), abs=1e-4)
    assert of_first["personalised_r2"] == pytest.approx(1 - squares.mean() / test.labels.var(), abs=1e-4)
    assert of_first["personalised_accuracy"] is None
    [rows, numbers] = (
        np.concatenate([getattr(client.test, what) for client in setup.clients])
        for what in ("images", "labels")
    )
    rows = np.column_stack([(rows - by.means) / by.deviations, np.ones(len(rows))])
    pooled = 1 - ((numbers - rows @ expected) ** 2).mean() / numbers.var()
    found = compute_curves(read_records(folder))["personalised_r2_pooled"][-1]
    assert found == pytest.approx(pooled, abs=1e-4)
    assert score_run(folder)["personalised_r2_pooled"] == found


def test_clusters_of_opposite_slopes_are_found_and_shown_by_r2(table, tmp_path):
    """The clients of both groups take the same rounds from the cache until one algorithm clusters."""
    run = ["run", "--dataset", f"csv:{table}#target=y,drop=z", "--algorithm", "fedavg,ocfl-affinity"]
    run += ["training.rounds=4", "--storage", tmp_path, "--in-process", "--name", "slopes"]
    shown = fedgrid(*run).out
    assert "R2" in shown
    assert "acc." not in shown.partition("ARI, AMI")[0].partition("Final round")[2]
    scores = {
        folder.name.split("-")[3]: strict_json((folder / "scores.json").read_text())
        for folder in tmp_path.glob("csv_t-*")
    }
    assert scores["ocfl_affinity"]["ari"] == 1
    assert scores["ocfl_affinity"]["personalised_r2"] > 0.9 > 0.3 > scores["fedavg"]["personalised_r2"]
    assert scores["fedavg"]["evaluated_round"] == 4
    printed = fedgrid(
        "table", "slopes", "--storage", tmp_path, "--score", "personalised_r2,personalised_loss"
    ).out
    assert "R2 of the clusters' models" in printed
    assert "0.9" in printed


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"split": "dirichlet"}, "split dirichlet"),
        ({"split": {"kind": "swapped", "num_clusters": 2}}, "split swapped"),
        ({"split": "majority"}, "split majority"),
        ({"algorithm": "ladd"}, "algorithm ladd"),
        ({"algorithm": "flis-hc"}, "algorithm flis-hc"),
        ({"evaluation": {"probabilities": True}}, "evaluation.probabilities"),
        ({"faults": {"label_flip": [1]}}, "faults of labels"),
    ],
)
def test_what_needs_classes_refuses_numbers_in_one_line(table, tmp_path, changes, what):
    with pytest.raises(
        ConfigError, match=rf"^{what} needs classes; csv:t.csv#target=y@\w+ has numbers to predict$"
    ):
        complete_config({"dataset": f"csv:{table}#target=y", **changes}, tmp_path)


@pytest.mark.parametrize(
    ("rows", "mark", "said"),
    [
        (["1,x", "2,4"], "#target=y", "column y has x, no number; classes: #label=y"),
        (["1,3", "2,"], "#target=y", "row 2 has no value in column y"),
        (["1,3", "2,3"], "#target=y", "column y has one number; name a column with more"),
        (["1,3", "2,4"], "#target=y,label=x", "label=x names classes, target=y numbers; leave one"),
        (["1,3", "2,4"], "", "name that of the classes, as in #label=y, or of numbers to predict"),
        (
            [f"{row},{row * 1.3:.2f}" for row in range(50)],
            "#label=y",
            "have its numbers predicted: #target=y",
        ),
    ],
)
def test_tables_without_such_numbers_are_refused(tmp_path, rows, mark, said):
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *rows]))
    with pytest.raises((ConfigError, DataError), match=said):
        load_dataset(f"csv:{tmp_path}/t.csv{mark}", tmp_path)
