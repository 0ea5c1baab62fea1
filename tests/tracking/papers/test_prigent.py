"""Tables III to V and Figure 4 of Prigent et al., and our cells beside them."""

from dataclasses import replace

import pytest

from fedgrid.tracking.papers.prigent.tables import (
    build_attack_table,
    build_prigent_tables,
    is_in_setting,
    read_printed_flips,
    read_printed_tables,
)
from tests.helpers.studies import ONE, WHOLE, make_result, make_run, make_study, read_cells


def run(algorithm="Embeddings", *, dataset="mnist", split="rotated", federated="10", flip="0.1", clients=100):
    described = make_run(algorithm, dataset=dataset, clients=clients, split=split)
    keys = (
        {"algorithm.encoder.federated": federated, "algorithm.flip": flip}
        if algorithm == "Embeddings"
        else {}
    )
    name = f"{described.run_id} {federated} {flip}"
    title = algorithm if algorithm != "Embeddings" else f"Embeddings ({federated}, {flip})"
    return replace(described, run_id=name, algorithm=title, values=keys, model_bytes=400)


def finished(accuracy, labels=WHOLE, *, seconds=(1, 2), **settings):
    curves = {
        "asked_accuracy": accuracy,
        "bytes": (2e9, 4e9),
        "bytes_down": (1e9, 1e9),
        "asked_clients": (50, 50),
        "seconds": seconds,
        "ari": (1.0, 0.5),
    }
    return make_result(run(**settings), labels, curves=curves)


def test_all_cells_of_tables_3_to_5_are_there():
    known = read_printed_tables()
    assert len(known) == 4 * 5
    assert known["mnist", "Embeddings, federated"]["accuracy"] == "98.49"
    assert sum(row["rounds"] == "" for row in known.values()) == 5
    assert len(read_printed_flips()) == 3 * 8 + 5


def test_bytes_are_three_models_a_client_asked():
    """50 rounds x 50 clients x 3 x 85,822 x 4 bytes, and 4 to 5 % more on the wire."""
    for dataset, arithmetic in (
        ("mnist", 50 * 50 * 3 * 85_822 * 4),
        ("cifar10", 50 * 50 * 3 * (11_181_642 + 9_600) * 4),
        ("femnist", 500 * 75 * 3 * 90_242 * 4),
        ("pacs", 100 * 20 * 3 * (11_180_103 + 9_600) * 4),
    ):
        published = float(read_printed_tables()[dataset, "BNC"]["gb"]) * 1e9
        assert 1.035 < published / arithmetic < 1.055


def test_ours_stand_beside_the_published_ones():
    """FedAvg takes 4 s. Traffic: 4 GB, and two rounds of 50 models of 400 bytes to be tested."""
    study = make_study([finished((0.5, 0.96)), finished((0.5, 0.9), ONE, seconds=(2, 4), algorithm="BNC")])
    [table] = build_prigent_tables(study)
    found = {key: cell.text for key, cell in read_cells(table).items()}
    assert found["Embeddings (10, 0.1)", "rounds to 95%"] == "2 / 5"
    assert found["Embeddings (10, 0.1)", "accuracy, %"] == "73.00 / 98.49"
    assert found["Embeddings (10, 0.1)", "GB"] == "4.00 / 3.2"
    assert found["Embeddings (10, 0.1)", "time / FedAvg's"] == "0.50 / 1.09"
    assert found["BNC", "rounds to 95%"] == "– / –"


def test_flips_have_a_table_of_their_own():
    study = make_study([finished((0.5, 0.96), flip=flip) for flip in ("0.1", "0.3")])
    *_, table = build_prigent_tables(study)
    found = {key: cell.text for key, cell in read_cells(table).items()}
    assert found["0.1", "federated encoder"] == "0.500 / 1"
    assert found["0.3", "federated encoder"] == "0.500 / 0.541"


@pytest.mark.parametrize("other", [{"clients": 40}, {"split": "flipped"}, {"dataset": "digits"}])
def test_a_run_in_another_setting_is_compared_with_nothing(other):
    assert is_in_setting(run())
    assert not is_in_setting(run(**other))


def test_table_2_stands_beside_errors_of_the_same_levels():
    """The quotient of the published error and ours, 0.9075 / 0.025."""
    table = build_attack_table({"none": [0.0070], "0.1": [0.02, 0.025, 0.04], "0.5": [0.5]})
    assert [(row.name, *(cell.text for cell in row.cells)) for row in table.rows] == [
        ("without bits", "0.0070", "0.0175", "2.5"),
        ("flip 0.1", "0.0250", "0.9075", "36.3"),
    ]
    assert build_attack_table({"0.5": [0.5]}) is None
