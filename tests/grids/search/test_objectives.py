"""The scores of a trial, and the best trial: by label-free scores and by the oracle."""

from fedgrid.grids.search.objectives import Trial, compute_means, find_best, find_label_free


def trial(number, validation, ari, silhouette=None):
    scores = {"validation": validation, "accuracy": None, "silhouette": silhouette, "ari": ari}
    return Trial(number, {"threshold": number / 10}, (f"run{number}",), scores)


def test_score_of_a_trial_is_the_mean_of_its_runs():
    """A run without a silhouette counts -1 where another has one: (0.5 - 1) / 2 = -0.25."""
    runs = [
        {"personalised_f1": 0.5, "personalised_accuracy": 0.25, "silhouette": 0.5, "ari": 1.0},
        {"personalised_f1": 0.75, "personalised_accuracy": 0.5, "silhouette": None, "ari": 0.0},
    ]
    assert compute_means(runs) == {"validation": 0.625, "accuracy": 0.375, "silhouette": -0.25, "ari": 0.5}


def test_trial_has_no_score_that_no_run_has():
    runs = [{"personalised_f1": 0.5, "ari": 1.0}, {"personalised_f1": 0.5, "silhouette": None, "ari": 1.0}]
    assert compute_means(runs) == {"validation": 0.5, "accuracy": None, "silhouette": None, "ari": 1.0}
    assert trial(1, 0.5, 1.0).objective_score("silhouette") is None
    assert trial(1, 0.5, 1.0).rank_value("silhouette") == -1.0


def test_label_free_and_oracle_best_can_differ():
    trials = [trial(1, 0.9, 0.2), trial(2, 0.8, 1.0), trial(3, 0.7, 0.5)]
    found = find_best(trials, "validation")
    assert (found["label_free"].number, found["oracle"].number) == (1, 2)


def test_label_free_ties_go_to_the_first_trial_whatever_the_truth():
    trials = [trial(1, 0.9, 0.2), trial(2, 0.9, 1.0), trial(3, 0.8, 1.0), trial(4, 0.9, 1.0)]
    found = find_best(trials, "validation")
    assert (found["label_free"].number, found["oracle"].number) == (1, 2)


def test_search_by_ari_has_a_label_free_best_too():
    assert find_label_free("ari") == "validation"
    assert find_label_free("silhouette") == "silhouette"
    found = find_best([trial(1, 0.9, 0.2), trial(2, 0.8, 1.0)], "ari")
    assert (found["label_free"].number, found["oracle"].number) == (1, 2)


def test_failed_trials_are_never_the_best():
    failed = Trial(1, {}, ("run1",), None, "1 of 1 runs failed")
    assert find_best([failed], "validation") == {}
    assert failed.rank_value("ari") is None
    assert find_best([failed, trial(2, 0.1, 0.0)], "validation")["oracle"].number == 2


def test_search_without_a_silhouette_has_no_label_free_best():
    assert list(find_best([trial(1, 0.9, 0.2)], "silhouette")) == ["oracle"]
