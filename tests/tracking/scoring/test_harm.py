"""Harm: the share of clients that do worse than in another run."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrid.tracking.scoring.client_scores import compute_worse_share
from fedgrid.tracking.scoring.measures import add_harm, find_measure
from fedgrid.tracking.tables.scenarios import build_harm_table
from tests.helpers.studies import ONE, make_result, make_run, make_study

NAN = float("nan")


def test_equal_is_not_worse_and_clients_without_a_score_are_left_out():
    """Of three clients that have both, the first is worse."""
    assert compute_worse_share([0.1, 0.5, 0.6, NAN, 0.2], [0.2, 0.5, 0.3, 0.1, NAN]) == pytest.approx(1 / 3)
    assert np.isnan(compute_worse_share([NAN], [0.5]))


def result(algorithm, last_K, **given):
    run = replace(make_run(algorithm, **given), method=algorithm)
    return replace(make_result(run, ONE), accuracy_RK=np.array([[0.0] * 6, last_K]))


def test_runs_are_compared_with_those_of_their_scenario_and_seed():
    """With seed 0 half of fedavg's clients are worse than alone, with seed 1 none; seed 2 has no such run."""
    results = [
        result("fedavg", [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]),
        result("fedavg", [0.5] * 6, seed=1),
        result("fedavg", [0.1] * 6, seed=2),
        result("solo", [0.5] * 6),
        result("solo", [0.5] * 6, seed=1),
        result("solo", [1.0] * 6, seed=2, split="overlapping-balanced"),
    ]
    study = make_study(add_harm(results))
    shares = [run.scores["worse_than_solo"] for run in study.runs]
    assert shares == [0.5, 0.0, None, None, None, None]
    assert {run.scores["worse_than_fine_tuned"] for run in study.runs} == {None}
    assert find_measure("worse_than_solo", study).highest is False
    fedavg, solo = build_harm_table(study).rows
    assert [cell.text for cell in fedavg.cells] == ["0.250 (2/3)", "0.25 mnist 15 nonoverlapping-balanced"]
    assert solo.cells[0].value is None
    assert study.to_pandas()["worse_than_solo"].tolist()[:2] == [0.5, 0.0]
    assert build_harm_table(make_study(results)) is None
