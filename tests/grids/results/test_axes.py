"""The further axes of a grid, found in the configurations of its runs."""

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.presets.axis_keys import list_axis_pairs
from fedgrid.grids.results.axes import find_further_axes, format_run_name


def config(**values):
    return complete_config({"dataset": "digits", "algorithm": "fedavg", **values}, None)


def epochs(number, **values):
    return config(training={"local_epochs": number}, **values)


def briggs(**settings):
    return config(algorithm={"name": "briggs", **settings})


def test_a_grid_without_further_axes_has_none():
    runs = [
        config(seed=seed, algorithm=name) for seed in (0, 1) for name in ("fedavg", "sattler", "ocfl-kmeans")
    ]
    assert find_further_axes(runs) == ()


def test_defaults_of_the_data_set_are_no_axes():
    """Model, rounds and batch size are those of the data set."""
    assert find_further_axes([config(dataset="digits"), config(dataset="mnist")]) == ()


def test_keys_in_which_runs_of_a_scenario_differ_are_axes():
    runs = [
        config(training={"local_epochs": number}, clients=10, split={"kind": "majority", "majority": share})
        for number in (1, 5)
        for share in (0.5, 1.0)
    ]
    assert find_further_axes(runs) == ("training.local_epochs", "split.majority")
    assert list_axis_pairs(runs[1], find_further_axes(runs)) == (
        ("training.local_epochs", "1"),
        ("split.majority", "1"),
    )
    assert format_run_name(runs[0], find_further_axes(runs)) == (
        "digits-10-majority-fedavg-s0 (training.local_epochs 1, split.majority 0.5)"
    )


def test_another_seed_does_not_hide_that_runs_differ():
    """They would be averaged as two seeds of one run otherwise."""
    assert find_further_axes([epochs(1, seed=0), epochs(5, seed=1)]) == ("training.local_epochs",)


def test_a_key_that_an_axis_determines_is_no_axis():
    """An override that gives each model its learning rate."""
    runs = [
        config(model=model, training={"learning_rate": rate})
        for model, rate in (("digitnet", 0.1), ("tinyvgg", 0.01))
    ]
    assert find_further_axes(runs) == ("model",)


def test_settings_of_an_algorithm_are_axes_if_all_combinations_are_run():
    runs = [briggs(threshold=threshold, round=number) for threshold in (0.1, 0.4) for number in (3, 6)]
    assert find_further_axes([config(), *runs]) == ("algorithm.round", "algorithm.threshold")
    assert find_further_axes([config(), *runs[:3]]) == ()
    assert list_axis_pairs(config(), ("algorithm.threshold",)) == ()
