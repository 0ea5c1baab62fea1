"""What learning costs: messages before training, and scores beside epsilon in a table and a figure."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from fedgrid.tracking import figures
from fedgrid.tracking.tables.cost import (
    build_epsilon_table,
    build_messages_table,
    find_last_paid_round,
    has_messages,
    sum_bytes_until_final,
)
from tests.helpers.studies import ONE, TRUTH_K, WHOLE, make_result, make_run, make_study

SAID = {
    "message_bytes": (150, 0),
    "encoder_bytes": (2_000_000, 0),
    "message_seconds": (0.1, np.nan),
    "epoch_seconds": (np.nan, 0.4),
    "bytes": (3e6, 4e6),
    "ari": (1.0, 1.0),
}
SILENT = {"bytes": (1e6, 2e6), "ari": (0.0, 1.0)}
LATER = [(0,) * 6, TRUTH_K]


def row(table, name):
    [found] = [row for row in table.rows if row.name == name]
    return [cell.text for cell in found.cells]


def test_messages_and_updates_are_counted_alike():
    """150 bytes of 15 clients are 80 bits each; OCFL is final in its second round, after two megabytes."""
    said = make_result(make_run("embeddings"), WHOLE, curves=SAID)
    silent = make_result(make_run("ocfl-kmeans"), LATER, curves=SILENT)
    never = make_result(make_run("fedavg"), ONE, curves=SILENT)
    table = build_messages_table(make_study([said, silent, never]))
    assert row(table, "embeddings") == ["80", "2.000", "4.0", "2.000", "1.000"]
    assert row(table, "ocfl-kmeans") == ["0", "0.000", "–", "2.000", "1.000"]
    assert row(table, "fedavg")[3] == "–"


def test_clusters_that_change_are_final_later():
    assert sum_bytes_until_final(make_result(make_run("embeddings"), LATER, curves=SAID)) == 4e6
    assert sum_bytes_until_final(make_result(make_run("ifca"), WHOLE, curves=SILENT)) == 1e6


@pytest.mark.parametrize(("curves", "expected"), [(SAID, True), (SILENT, False)])
def test_only_grids_with_messages_have_the_table(curves, expected):
    assert has_messages(make_study([make_result(make_run(), WHOLE, curves=curves)])) is expected


NAN = float("nan")
EPSILONS = {"clip 1": NAN, "clip 1, noise 0.1": 1000.0, "clip 1, noise 1": 12.345}


def result(algorithm, uplink, epsilon, labels_RK, accuracy, seed=0):
    run = make_run(algorithm, seed=seed, is_reference=algorithm == "solo")
    run = replace(
        run,
        run_id=f"{run.run_id}-{uplink}",
        axes=(("uplink", uplink),),
        values={"privacy.delta": "1e-05"},
    )
    curves = {
        "personalised_accuracy": (0.1, accuracy),
        "epsilon": (epsilon / 2, epsilon),
        **dict.fromkeys(("last_local_accuracy", "generalised_accuracy", "global_accuracy"), (NAN, NAN)),
        "silhouette": (NAN, NAN),
    }
    return make_result(run, labels_RK, curves=curves)


def study(solo=True, telling=False):
    """ocfl-hdbscan finds the groups but with the most noise; solo sends nothing."""
    results = [
        found
        for number, (uplink, epsilon) in enumerate(EPSILONS.items())
        for found in (
            result("ocfl-hdbscan", uplink, epsilon, ONE if number == 2 else WHOLE, 0.9 - number / 5),
            *([result("solo", uplink, 0 if number else NAN, ONE, 0.8)] if solo else ()),
            *([result("ifca", uplink, inf if number else NAN, ONE, 0.7)] if telling else ()),
        )
    ]
    return make_study(results)


class TestTable:
    def test_has_the_epsilon_of_each_algorithm_in_each_setting(self):
        table = build_epsilon_table(study(telling=True))
        rows = [(row.section, row.name, *(cell.text for cell in row.cells)) for row in table.rows]
        assert rows == [
            ("uplink clip 1", "ocfl-hdbscan", "–", "1.000", "0.900"),
            ("uplink clip 1", "ifca", "–", "0.000", "0.700"),
            ("uplink clip 1", "solo", "–", "0.000", "0.800"),
            ("uplink clip 1, noise 0.1", "ocfl-hdbscan", "1e+03", "1.000", "0.700"),
            ("uplink clip 1, noise 0.1", "ifca", "∞", "0.000", "0.700"),
            ("uplink clip 1, noise 0.1", "solo", "0", "0.000", "0.800"),
            ("uplink clip 1, noise 1", "ocfl-hdbscan", "12.3", "0.000", "0.500"),
            ("uplink clip 1, noise 1", "ifca", "∞", "0.000", "0.700"),
            ("uplink clip 1, noise 1", "solo", "0", "0.000", "0.800"),
        ]
        assert "delta 1e-05" in table.caption

    def test_has_the_last_round_that_cost_anything_where_there_are_budgets(self):
        """Epsilon rises to 6 in round 2 of 3, and stays."""
        whole, *_ = study(solo=False).finished
        keys = {"privacy.delta": "1e-05", "privacy.epsilon": "8"}
        spent = replace(whole, values=keys, curves={**whole.curves, "epsilon": np.array([3.0, 6.0, 6.0])})
        table = build_epsilon_table(make_study([spent]))
        assert [column.name for column in table.columns][:2] == ["epsilon", "sends until"]
        assert [cell.text for cell in table.rows[0].cells][1] == "2"
        assert find_last_paid_round(np.array([0.0, 0.0])) == 0
        assert find_last_paid_round(np.array([inf, inf, inf])) == 3

    def test_has_the_largest_epsilon_of_any_run(self):
        """One seed asked its clients more often than the other."""
        runs = [result("fedavg", "noise", epsilon, ONE, 0.5, seed) for seed, epsilon in enumerate((3.0, 5.0))]
        [row] = build_epsilon_table(make_study(runs)).rows
        assert row.cells[0].value == 5.0


class TestFigure:
    def lines(self, study):
        return [
            {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
            for axes in figures.over_epsilon(study).axes
        ]

    def test_has_a_point_for_each_setting_and_runs_without_noise_at_the_edge(self):
        accuracy, ari = self.lines(study(solo=False))
        assert accuracy["ocfl-hdbscan"] == [[12.345, 0.5], [1000, pytest.approx(0.7)], [10_000, 0.9]]
        assert ari["ocfl-hdbscan"] == [[12.345, 0], [1000, 1], [10_000, 1]]

    def test_has_a_level_line_of_an_algorithm_that_sends_nothing(self):
        accuracy, _ = self.lines(study())
        assert [height for _, height in accuracy["solo"]] == pytest.approx([0.8, 0.8])

    def test_leaves_out_an_infinite_epsilon_but_for_runs_without_noise(self):
        accuracy, _ = self.lines(study(telling=True))
        assert accuracy["ifca"] == [[10_000, pytest.approx(0.7)]]

    def test_names_powers_of_ten_and_infinity(self):
        axes, _ = figures.over_epsilon(study()).axes
        assert [label.get_text() for label in axes.get_xticklabels()] == ["10¹", "10²", "10³", "∞"]
        assert axes.get_xticks() == pytest.approx([10, 100, 1000, 10_000])

    def test_of_a_study_without_results_says_so(self):
        empty = make_study([], [make_run()])
        assert any("no run" in text.get_text() for text in figures.over_epsilon(empty).axes[0].texts)
