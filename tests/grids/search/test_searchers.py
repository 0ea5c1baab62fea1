"""Suggestions depend only on the space and the scores."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.search.searchers import SEARCHERS, StoppedEarly, create_searcher, list_grid_levels
from fedgrid.grids.search.space import Choices, Range

SPACE = {
    "epsilon_1": Range(0.05, 2.0, log=True),
    "cooldown": Range(2, 9, step=3, is_integer=True),
    "linkage": Choices(("single", "complete")),
}


def played(searcher, sizes, *, better=0.5, failing=()):
    """Ask for batches of these sizes and report how near epsilon_1 is to `better`."""
    source = create_searcher(SPACE, searcher, 100)
    asked = []
    for size in sizes:
        batch = source.suggest_params(size)
        first = len(asked)
        asked += batch
        source.report_results(
            [
                None if number in failing else -abs(params["epsilon_1"] - better)
                for number, params in enumerate(batch, start=first)
            ]
        )
    return asked


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_same_scores_lead_to_the_same_suggestions(searcher):
    assert played(searcher, [8, 8, 8], failing=[3]) == played(searcher, [8, 8, 8], failing=[3])


def test_optuna_learns_from_the_scores():
    first, second = played("optuna", [8] * 4, better=0.1), played("optuna", [8] * 4, better=1.5)
    assert first[:8] == second[:8]
    assert first != second
    late = {goal: played("optuna", [8] * 6, better=goal)[24:] for goal in (0.1, 1.5)}
    means = {goal: sum(params["epsilon_1"] for params in found) / 24 for goal, found in late.items()}
    assert means[0.1] < 0.5 < 0.8 < means[1.5]


def test_search_of_more_trials_begins_like_one_of_fewer():
    """20 trials are batches of 8, 8 and 4; with 24 the last batch begins with the same 4."""
    assert played("optuna", [8, 8, 8])[:20] == played("optuna", [8, 8, 4])


def test_stopped_trial_ranks_behind_a_finished_one():
    """Of two searches whose small values of epsilon_1 are good, but in one of them stopped early."""

    def late(stops):
        source = create_searcher({"epsilon_1": Range(0.0, 1.0)}, "optuna", 100)
        asked = []
        for _ in range(6):
            batch = [params["epsilon_1"] for params in source.suggest_params(8)]
            asked += batch
            source.report_results([StoppedEarly(-x, 0.25) if stops and x < 0.5 else -x for x in batch])
        return sum(asked[24:]) / 24

    assert late(stops=False) < 0.35 < 0.5 < late(stops=True)


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_suggestions_are_points_of_the_space(searcher):
    for params in played(searcher, [8, 8]):
        assert list(params) == list(SPACE)
        assert 0.05 <= params["epsilon_1"] <= 2.0
        assert params["cooldown"] in (2, 5, 8)
        assert params["linkage"] in ("single", "complete")
        assert float(f"{params['epsilon_1']:.4g}") == params["epsilon_1"]


def test_grid_has_as_many_levels_as_fit_into_its_trials():
    """3 cooldowns x 2 linkages leave 35 // 6 = 5 values of epsilon_1: four steps of 40 ** 0.25 = 2.515."""
    levels = list_grid_levels(SPACE, 35)
    assert levels == {
        "epsilon_1": [0.05, 0.1257, 0.3162, 0.7953, 2.0],
        "cooldown": [2, 5, 8],
        "linkage": ["single", "complete"],
    }
    source = create_searcher(SPACE, "grid", 35)
    points = source.suggest_params(8) + source.suggest_params(100)
    assert len(points) == 30
    assert points[0] == {"epsilon_1": 0.05, "cooldown": 2, "linkage": "single"}
    assert points[1] == {"epsilon_1": 0.05, "cooldown": 2, "linkage": "complete"}
    assert source.suggest_params(8) == []


def test_points_of_a_grid_come_in_start_order():
    """By cooldown; ties in the order of declaration."""
    source = create_searcher(SPACE, "grid", 35, lambda params: (params["cooldown"],))
    points = source.suggest_params(30)
    assert [point["cooldown"] for point in points] == [2] * 10 + [5] * 10 + [8] * 10
    assert [(point["epsilon_1"], point["linkage"]) for point in points[:3]] == [
        (0.05, "single"),
        (0.05, "complete"),
        (0.1257, "single"),
    ]


def test_grid_with_too_many_points_names_their_number():
    with pytest.raises(ConfigError, match="has 12 points or more, and this search 11 trials: .*--trials 12"):
        create_searcher(SPACE, "grid", 11)


def test_choices_that_are_equal_to_optuna_stay_distinct():
    values = {"late": Choices((1, True, None))}
    asked = create_searcher(values, "random", 30).suggest_params(30)
    assert {repr(params["late"]) for params in asked} == {"1", "True", "None"}
