"""The cost of a target: FLIS's Table 3 and Prigent's Tables IV and V recomputed from their arithmetic."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrid.tracking.scoring.cost import Cost, Target, choose_unit, compute_cost, compute_costs
from fedgrid.tracking.tables.cost import build_cost_table as cost_table
from tests.helpers.studies import make_result, make_run, make_study, read_texts

BYTES = 4
NAN = float("nan")
LENET, LENET_SHARED, RESNET9 = 62_006, 11_014, 6_620_891
"""Parameters that FLIS's Table 3 is made with: its ResNet-9 follows from the table, ours has 6,621,540."""


def run(down, up, *, asked, clients, model, rounds, algorithm="fedavg", accuracy=None):
    """The result of a run that sends this many models' entries to and from each client asked, every round.

    It reaches its target in its last round.
    """
    scores = accuracy or [0.0] * (rounds - 1) + [1.0]
    described = replace(make_run(algorithm, clients=clients), model_bytes=model * BYTES)
    sent_R = np.full(rounds, asked * BYTES)
    curves = {
        "personalised_accuracy": scores,
        "bytes_down": sent_R * down,
        "bytes": np.cumsum(sent_R * (down + up)),
        "asked_clients": np.full(rounds, asked),
        "seconds": np.arange(rounds) + 1.0,
    }
    return make_result(described, [(0,) * 6] * rounds, curves=curves)


def only(result):
    [[found]] = compute_costs(make_study([result]), Target("personalised_accuracy", 0.8)).values()
    return found


def with_test(result):
    return compute_cost(result, "personalised_accuracy", 0.8, "with-test")


@pytest.mark.parametrize(
    ("algorithm", "rounds", "down", "up", "published"),
    [
        ("FedAvg", 200, LENET, LENET, 79.37),
        ("FedProx", 180, LENET, LENET, 71.43),
        ("Per-FedAvg", 19, LENET, LENET, 7.54),
        ("Per-FedAvg", 60, LENET, LENET, 23.81),
        ("Per-FedAvg", 47, LENET, LENET, 18.65),
        ("IFCA", 19, 2 * LENET, LENET, 11.31),
        ("IFCA", 28, 2 * LENET, LENET, 16.67),
        ("IFCA", 18, 2 * LENET, LENET, 10.71),
        ("LG-FedAvg", 18, LENET_SHARED, LENET_SHARED, 1.27),
        ("LG-FedAvg", 30, LENET_SHARED, LENET_SHARED, 2.11),
        ("LG-FedAvg", 25, LENET_SHARED, LENET_SHARED, 1.76),
        ("FedAvg", 100, RESNET9, RESNET9, 4237.37),
        ("SCAFFOLD", 39, 2 * RESNET9, 2 * RESNET9, 3305.15),
        ("IFCA", 55, 2 * RESNET9, RESNET9, 3495.83),
    ],
)
def test_flis_table_3_counts_megabits_per_client_over_all_clients(algorithm, rounds, down, up, published):
    """100 clients, 10 asked: rounds x copies x 32 bit x P x 0.1 / 1e6, cut or rounded."""
    found = only(run(down, up, asked=10, clients=100, model=LENET, rounds=rounds))
    assert found.rounds == rounds
    assert found.convert_traffic("mbit-per-client") == pytest.approx(published, abs=0.006)


@pytest.mark.parametrize(("rounds", "model", "published"), [(9, LENET, 7.53), (37, RESNET9, 1992)])
def test_flis_hc_pays_for_a_first_round_of_all_clients(rounds, model, published):
    """Two models a client and round, of which a tenth of the clients has each; and two for everybody once."""
    result = run(model, model, asked=10, clients=100, model=model, rounds=rounds)
    once = 100 * 2 * model * BYTES
    result = replace(result, curves={**result.curves, "bytes": result.curves["bytes"] + once})
    assert only(result).convert_traffic("mbit-per-client") == pytest.approx(published, rel=2e-3)


LENET_TANH, CONVOLUTIONS, LENET_62 = 85_822, 13_248, 90_242
RESNET18, RESNET18_7 = 11_181_642 + 9_600, 11_180_103 + 9_600


def candidates(model, count, shared=0):
    """Entries that IFCA sends down: `count` models whose lower layers are the same."""
    return shared + count * (model - shared)


@pytest.mark.parametrize(
    ("rounds", "asked", "clients", "model", "down", "gigabytes"),
    [
        (50, 50, 100, LENET_TANH, LENET_TANH, 2.57),
        (50, 50, 100, RESNET18, RESNET18, 335.7),
        (500, 75, 3550, LENET_62, LENET_62, 40.6),
        (100, 20, 40, RESNET18_7, RESNET18_7, 268.6),
        (50, 50, 100, LENET_TANH, candidates(LENET_TANH, 4, CONVOLUTIONS), 4.75),
        (50, 50, 100, RESNET18, candidates(RESNET18, 4), 671),
        (500, 75, 3550, LENET_62, candidates(LENET_62, 3, CONVOLUTIONS), 63.7),
        (100, 20, 40, RESNET18_7, candidates(RESNET18_7, 4), 537),
    ],
    ids=["MNIST", "CIFAR-10", "FEMNIST", "PACS", "IFCA MNIST", "IFCA CIFAR-10", "IFCA FEMNIST", "IFCA PACS"],
)
def test_prigent_table_4_counts_a_third_model_that_is_tested(rounds, asked, clients, model, down, gigabytes):
    """Each client that was asked moves its models to train, its update, and one model to test."""
    result = run(down, model, asked=asked, clients=clients, model=model, rounds=rounds)
    found = with_test(result)
    assert found.bytes / 1e9 == pytest.approx(gigabytes, rel=2e-3)
    assert only(result).bytes == found.bytes - rounds * asked * model * BYTES


@pytest.mark.parametrize(("down", "tested"), [(0, 0), (LENET_SHARED, LENET_SHARED), (4 * LENET, LENET)])
def test_the_download_to_test_is_one_model_at_most_what_the_round_sends(down, tested):
    """solo downloads nothing, LG-FedAvg its shared part, IFCA one of its models."""
    result = run(down, 0, asked=10, clients=20, model=LENET, rounds=1)
    assert with_test(result).bytes - only(result).bytes == 10 * tested * BYTES


def test_a_download_to_test_of_unknown_size_is_unknown():
    result = run(LENET, LENET, asked=2, clients=4, model=LENET, rounds=2)
    result = replace(result, model_bytes=None)
    assert np.isnan(with_test(result).bytes)
    assert with_test(result).rounds == 2


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("personalised_accuracy=0.7", Target("personalised_accuracy", 0.7)),
        ("ari=1", Target("ari", 1.0)),
        ("last_local_accuracy=95%", Target("last_local_accuracy", 0.95, is_share=True)),
    ],
)
def test_a_target_is_a_score_or_a_share_of_the_best(text, target):
    assert Target.from_text(text) == target


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("personalised_acuracy=0.7", "did you mean 'personalised_accuracy'"),
        ("accuracy=0.9", "did you mean 'personalised_accuracy'"),
        ("F1=0.9", "did you mean 'personalised_f1'"),
        ("learning_gap=0.1", "no score 'learning_gap'"),
        ("personalised_accuracy", "as in personalised_accuracy=0.7"),
        ("personalised_accuracy=70", "above 0 and up to 1"),
        ("personalised_accuracy=0", "above 0 and up to 1"),
        ("personalised_accuracy=high", "=95%"),
        ("personalised_accuracy=nan", "above 0 and up to 1"),
    ],
)
def test_a_target_that_cannot_be_says_what_can(text, says):
    with pytest.raises(ValueError, match=says):
        Target.from_text(text)


@pytest.mark.parametrize(("largest", "name"), [(999.0, "B"), (2e3, "kB"), (2.5e9, "GB"), (np.inf, "B")])
def test_bytes_are_printed_in_the_unit_of_the_largest(largest, name):
    assert choose_unit([Cost(1, largest, 1, 1), Cost(1, 1.0, 1, 1)], "bytes")[0] == name


def test_the_table_of_a_cost_has_medians_and_says_how_many_arrive():
    """sattler arrives after 1 and 3 rounds (median 2), fedavg in one run of two: its median never does."""
    rounds = {"sattler": ([0.9] * 3, [0.1, 0.1, 0.9]), "fedavg": ([0.1, 0.9, 0.9], [0.1] * 3)}
    results = [
        replace(result, seed=seed, run_id=f"{name}{seed}")
        for name, both in rounds.items()
        for seed, scores in enumerate(both)
        for result in [run(10, 10, asked=1, clients=2, model=10, rounds=3, algorithm=name, accuracy=scores)]
    ]
    terms = Target("personalised_accuracy", 0.9, unit="mbit-per-client")
    table = cost_table(make_study(results), terms)
    assert [column.name for column in table.columns] == ["reached", "rounds", "Mbit a client", "seconds"]
    assert read_texts(table) == {
        "sattler": ["2/2", "2", "0.00", "2.0"],
        "fedavg": ["1/2", "never", "never", "never"],
    }
    assert table.rows[0].cells[2].value == pytest.approx(2 * 80 * 8 / 1e6 / 2)
    assert [cell.bold for cell in table.rows[0].cells] == [False, True, True, True]


def test_a_cost_whose_bytes_are_unknown_is_a_dash():
    result = run(1, 1, asked=1, clients=2, model=1, rounds=2)
    result = replace(result, curves={**result.curves, "bytes": np.full(2, NAN)})
    [row] = cost_table(make_study([result]), Target("personalised_accuracy", 0.5)).rows
    assert [cell.text for cell in row.cells] == ["1/1", "2", "–", "2.0"]


def test_prigent_table_5_is_what_is_sent_until_the_target():
    """MNIST, central: 5 of 50 rounds, so a tenth of 2.57 GB; published .25."""
    accuracy = [0.1] * 4 + [0.95] * 46
    result = run(
        LENET_TANH, LENET_TANH, asked=50, clients=100, model=LENET_TANH, rounds=50, accuracy=accuracy
    )
    assert with_test(result).bytes / 1e9 == pytest.approx(0.257, abs=1e-3)
