"""Comparisons of explanations: by hand, and the authors' own as they published them."""

from math import isnan, nan

import pytest

from fedgrid.tracking.explained.scores import (
    DELETION,
    DISTRIBUTIONS,
    GAP,
    INSERTION,
    SCORES,
    compare_explanations,
    compute_published_ranks,
    compute_run_means,
    summarise_gap,
)
from tests.helpers.explanations import load_published, make_explained
from tests.helpers.reference import needs_archive, read_published_explanations
from tests.helpers.studies import IDS

EXPERIMENTS = {"members": "1A", "others": "1B", "server": "1C"}
RIGHT = ("members", "server")
BY_NAME = {score.name: score for score in SCORES}


def test_score_of_a_run_is_the_plain_mean_over_its_clusters():
    found = compute_run_means(
        [make_explained("sattler", 0.75, 0.5), make_explained("sattler", 0.25, 0.25)], "members", GAP
    )
    assert found == {"sattler": {(("mnist", 15, "overlapping-balanced"), 0): 0.125}}


def test_algorithm_without_a_score_has_no_scenario_and_nan_is_none():
    rows = [make_explained("fedavg", 0.5, 0.5), make_explained("sattler", nan, 0.5, on="others")]
    assert compute_run_means(rows, "others", INSERTION) == {"fedavg": {}, "sattler": {}}


def test_published_ranks_pass_over_missing_scores():
    """Highest first: b, a in the first scenario; c, a in the second. Nothing is known of d."""
    scores = {"a": {(1, 0): 0.1, (2, 0): 0.2}, "b": {(1, 0): 0.3}, "c": {(2, 0): 0.9}, "d": {}}
    found = compute_published_ranks(scores)
    assert {name: found[name] for name in "abc"} == {"a": 2.0, "b": 1.0, "c": 1.0}
    assert isnan(found["d"])


def test_low_deletion_is_best_and_as_published_high():
    rows = [
        make_explained(name, 0.5, deletion, dataset=dataset)
        for dataset in ("mnist", "fmnist")
        for name, deletion in (("fedavg", 0.1), ("sattler", 0.2), ("briggs", 0.3))
    ]
    assert compare_explanations(rows, "members", DELETION).algorithms == ("fedavg", "sattler", "briggs")
    turned = compare_explanations(rows, "members", DELETION, as_published=True)
    assert (turned.algorithms, turned.measure) == (
        ("briggs", "sattler", "fedavg"),
        "deletion on members as published",
    )


@needs_archive
@pytest.mark.parametrize("on", DISTRIBUTIONS)
@pytest.mark.parametrize("score", [INSERTION, DELETION], ids=lambda score: score.name)
def test_mean_ranks_are_those_of_the_papers_diagrams(on, score):
    """Figure 8 and Appendix A.5: 42 ranks, two of them NaN."""
    rows = read_published_explanations(level="all", experiment=EXPERIMENTS[on], metric=score.name)
    found = compute_published_ranks(compute_run_means(load_published(), on, score))
    assert len(rows) == 7
    for row in rows:
        if not row["printed_rank"]:
            assert isnan(found[IDS[row["algorithm"]]])
        else:
            assert found[IDS[row["algorithm"]]] == pytest.approx(float(row["printed_rank"]), abs=1e-4)


@needs_archive
@pytest.mark.parametrize("on", RIGHT)
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_ranks_in_the_right_direction_friedman_and_pairs_are_those_of_the_reference(on, score):
    """The p-values of insertion and deletion are those that the authors' notebook prints, before Holm's
    correction; decisions are after it."""
    found = compare_explanations(load_published(), on, score)
    wanted = {"experiment": EXPERIMENTS[on], "metric": score.name}
    ranks = {
        IDS[row["algorithm"]]: row["rank_best_first"]
        for row in read_published_explanations(level="all", **wanted)
    }
    assert dict(zip(found.algorithms, found.ranks, strict=True)) == pytest.approx(
        {name: float(rank) for name, rank in ranks.items()}, abs=1e-4
    )
    [friedman] = read_published_explanations(level="friedman", **wanted)
    assert found.friedman_p == pytest.approx(float(friedman["p_value"]), rel=1e-6)
    pairs = {frozenset((pair.one, pair.other)): pair for pair in found.pairs}
    rows = read_published_explanations(level="pair", **wanted)
    assert (found.num_scenarios, len(rows)) == (20, 21)
    for row in rows:
        pair = pairs[frozenset(IDS[name] for name in row["algorithm"].split("|"))]
        assert pair.test.p == pytest.approx(float(row["p_value"]), rel=1e-6)
        assert pair.test.p == pytest.approx(float(row["printed_p"] or row["p_value"]), rel=1e-6)
        assert pair.is_significant == (row["significant"] == "True")


@needs_archive
@pytest.mark.parametrize("score", [INSERTION, DELETION], ids=lambda score: score.name)
def test_only_pair_on_images_of_others_that_has_all_scores_has_the_printed_p(score):
    """All other 20 p-values are NaN in the notebook."""
    rows = read_published_explanations(level="pair", experiment="1B", metric=score.name)
    [row] = [row for row in rows if row["printed_p"]]
    two = [IDS[name] for name in row["algorithm"].split("|")]
    found = compare_explanations(
        [each for each in load_published() if each.algorithm in two], "others", score
    )
    assert (len(rows), found.num_scenarios) == (21, 20)
    assert found.pairs[0].test.p == pytest.approx(float(row["printed_p"]), rel=1e-6)


def test_missing_scores_on_images_of_others_never_reach_a_test():
    """fedavg has none and sattler 8 of 20: both are left out, and with them the paper's diagram."""
    found = compare_explanations(load_published(), "others", INSERTION)
    assert not {"fedavg", "sattler"} & set(found.algorithms)
    assert found.remarks[:2] == (
        "fedavg is left out: it has a score in 0 of 20 scenarios.",
        "sattler is left out: it has a score in 8 of 20 scenarios.",
    )
    assert not any(isnan(rank) for rank in found.ranks)
    assert all(pair.p is None or not isnan(pair.p) for pair in found.pairs)


def test_verdict_by_the_gap_finds_no_algorithm_that_differs_from_fedavg():
    sentence = summarise_gap(compare_explanations(load_published(), "members", GAP))
    assert "gap on members" in sentence
    assert "no algorithm is found to differ from fedavg over 20 scenarios" in sentence


def test_verdict_names_what_differs_from_fedavg():
    """Better by any gap in all of 20 scenarios: 2 / 2^20, also after the correction."""
    scenarios = {each.scenario: None for each in load_published()}
    rows = [
        make_explained(name, gap + place / 100, 0.0, dataset=dataset, split=split)
        for place, (dataset, _, split) in enumerate(scenarios)
        for name, gap in (("fedavg", 0.2), ("sattler", 0.4), ("briggs", 0.1))
    ]
    sentence = summarise_gap(compare_explanations(rows, "members", GAP))
    assert "better than fedavg: sattler; worse: briggs" in sentence


def test_verdict_without_fedavg_is_empty():
    assert summarise_gap(compare_explanations(load_published(), "others", GAP)) == ""


def test_few_scenarios_are_not_tested():
    found = compare_explanations(
        [make_explained("fedavg", 0.5, 0.2), make_explained("sattler", 0.6, 0.2)], "members", GAP
    )
    assert (found.pairs, found.friedman_p, summarise_gap(found)) == ((), None, "")
    assert any("No tests" in remark for remark in found.remarks)


def test_every_published_score_is_there():
    assert len(load_published()) == 420 - 42
    assert set(BY_NAME) == {"insertion", "deletion", "gap"}
