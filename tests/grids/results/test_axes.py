"""The further axes of a grid, found in the configurations of its runs."""

from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.grids.presets.axis_keys import pairs_of
from fedgrid.grids.results.axes import further_axes, name_of


def config(**values):
    return complete({"dataset": "digits", "algorithm": "fedavg", **values}, None)


def epochs(number, **values):
    return config(training={"local_epochs": number}, **values)


def briggs(**settings):
    return config(algorithm={"name": "briggs", **settings})


def test_a_grid_without_further_axes_has_none():
    runs = [
        config(seed=seed, algorithm=name) for seed in (0, 1) for name in ("fedavg", "sattler", "ocfl-kmeans")
    ]
    assert further_axes(runs) == ()


def test_defaults_of_the_data_set_are_no_axes():
    """Model, rounds and batch size are those of the data set."""
    assert further_axes([config(dataset="digits"), config(dataset="mnist")]) == ()


def test_keys_in_which_runs_of_a_scenario_differ_are_axes():
    runs = [
        config(training={"local_epochs": number}, clients=10, split={"kind": "majority", "majority": share})
        for number in (1, 5)
        for share in (0.5, 1.0)
    ]
    assert further_axes(runs) == ("training.local_epochs", "split.majority")
    assert pairs_of(runs[1], further_axes(runs)) == (("training.local_epochs", "1"), ("split.majority", "1"))
    assert name_of(runs[0], further_axes(runs)) == (
        "digits-10-majority-fedavg-s0 (training.local_epochs 1, split.majority 0.5)"
    )


def test_another_seed_does_not_hide_that_runs_differ():
    """They would be averaged as two seeds of one run otherwise."""
    assert further_axes([epochs(1, seed=0), epochs(5, seed=1)]) == ("training.local_epochs",)


def test_a_key_that_an_axis_determines_is_no_axis():
    """An override that gives each model its learning rate."""
    runs = [
        config(model=model, training={"learning_rate": rate})
        for model, rate in (("digitnet", 0.1), ("tinyvgg", 0.01))
    ]
    assert further_axes(runs) == ("model",)


def test_settings_of_an_algorithm_are_axes_if_all_combinations_are_run():
    runs = [briggs(threshold=threshold, round=number) for threshold in (0.1, 0.4) for number in (3, 6)]
    assert further_axes([config(), *runs]) == ("algorithm.round", "algorithm.threshold")
    assert further_axes([config(), *runs[:3]]) == ()
    assert pairs_of(config(), ("algorithm.threshold",)) == ()
