"""Paired tests between algorithms, by examples that can be worked out by hand."""

import numpy as np
import pytest

from fedgrid.tracking.scoring.measures import FINAL_ARI
from fedgrid.tracking.scoring.statistics import average_ranks, compare, compare_scores, holm, wilcoxon
from fedgrid.tracking.tables.significance import significance
from tests.helpers.studies import ONE, WHOLE, result_of, run_of, study_of


def scores(**columns: list[float]) -> dict[str, dict[int, dict[int, float]]]:
    """One score a scenario, of one seed; NaN leaves the scenario out."""
    return {
        name: {index: {0: value} for index, value in enumerate(values) if not np.isnan(value)}
        for name, values in columns.items()
    }


def test_holm_multiplies_the_least_p_by_the_number_of_tests_and_never_decreases():
    """Ordered: 0.005 x 4 = 0.02, 0.01 x 3 = 0.03, 0.03 x 2 = 0.06, 0.04 x 1 = 0.04, lifted to 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_ranks_are_averaged_and_ties_share_theirs():
    """By row: 1 2 3; 1.5 1.5 3; 2 2 2; the means are 4.5/3, 5.5/3 and 8/3."""
    losses_SA = np.array([[0.1, 0.2, 0.3], [0.1, 0.1, 0.3], [0.2, 0.2, 0.2]])
    assert average_ranks(losses_SA) == pytest.approx([1.5, 5.5 / 3, 8 / 3])


def test_six_wins_in_six_scenarios_are_significant_and_fewer_are_not():
    """All ranks have one sign: p = 2 / 2^6; of five it would be 2 / 2^5 = 0.0625."""
    wins = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert wilcoxon(wins, np.zeros(6)) == pytest.approx(2 / 64)
    assert wilcoxon(wins[:5], np.zeros(5)) == pytest.approx(2 / 32)


def test_wilcoxon_of_equal_scores_is_1():
    assert wilcoxon(np.ones(6), np.ones(6)) == 1.0
    assert wilcoxon(np.full(6, 0.1 + 0.2), np.full(6, 0.3)) == 1.0


def test_three_algorithms_that_always_rank_alike():
    """Friedman: 12 n / (k (k + 1)) x sum (rank - 2)^2 = 12 x 8 / 12 x 2 = 16 with 2 degrees: p = exp(-8).

    Each pair: 2 / 2^8 = 0.0078, all three multiplied by 3, 2 and 1 and lifted to the first: 0.0234.
    """
    steps = [index / 10 for index in range(8)]
    result = compare_scores(
        scores(low=steps, high=[x + 2 + x / 7 for x in steps], middle=[x + 1 + x / 9 for x in steps]), "score"
    )
    assert (result.algorithms, result.ranks) == (("high", "middle", "low"), (1.0, 2.0, 3.0))
    assert result.num_scenarios == 8
    assert result.friedman_p == pytest.approx(np.exp(-8))
    expected_AA = np.full((3, 3), 3 * 2 / 256)
    np.fill_diagonal(expected_AA, 1)
    np.testing.assert_allclose(result.p_values, expected_AA)
    assert result.cliques == ()
    assert result.remarks == ()
    lower = compare_scores(scores(low=steps, high=[x + 2 for x in steps]), "loss", highest=False)
    assert lower.algorithms == ("low", "high")


def test_a_clique_joins_neighbours_that_do_not_differ():
    """`a` and `b` take turns, `c` loses to both eight times of eight."""
    a = [1.0, 0.9, 1.0, 0.9, 1.0, 0.9, 1.0, 0.9]
    b = [0.9, 1.0, 0.9, 1.0, 0.9, 1.0, 0.9, 1.0]
    result = compare_scores(scores(a=a, c=[index / 100 for index in range(8)], b=b), "score")
    assert result.cliques == (("a", "b"),)
    assert result.p_values is not None
    assert result.p_values[0, 1] == 1.0
    assert result.p_values[0, 2] < 0.05


def test_equal_algorithms_are_one_clique_with_a_remark():
    result = compare_scores(scores(a=[0.5] * 6, b=[0.5] * 6, c=[0.5] * 6), "score")
    assert result.friedman_p == 1.0
    assert result.ranks == (2.0, 2.0, 2.0)
    assert result.cliques == (("a", "b", "c"),)
    assert "All algorithms have the same score in every scenario." in result.remarks
    assert not np.isnan(result.p_values).any()


def test_two_algorithms_have_no_friedman_test():
    result = compare_scores(scores(a=[1.0, 2, 3, 4, 5, 6], b=[0.0] * 6), "score")
    assert result.friedman_p is None
    assert result.p_values is not None
    assert result.p_values[0, 1] == pytest.approx(2 / 64)
    [remark] = result.remarks
    assert "Two algorithms" in remark
    assert "Friedman" in remark


def test_five_scenarios_give_ranks_but_no_test():
    result = compare_scores(scores(a=[1.0] * 5, b=[0.0] * 5), "score")
    assert (result.ranks, result.p_values, result.cliques) == ((1.0, 2.0), None, ())
    [remark] = result.remarks
    assert remark.startswith("No tests")
    assert {"0.05", "6", "5."} <= set(remark.split())


def test_a_remark_says_that_scenarios_are_too_few_for_the_number_of_pairs():
    """Four algorithms are six pairs: 6 x 2 / 2^6 = 0.19."""
    columns = {name: [place + index / (7 + place) for index in range(6)] for place, name in enumerate("abcd")}
    result = compare_scores(scores(**columns), "score")
    [remark] = result.remarks
    assert all(words in remark for words in ("6 scenarios", "4 algorithms", "0.19", "6 pairs"))


def test_only_common_scenarios_are_used_and_algorithms_with_few_are_left_out():
    nan = float("nan")
    result = compare_scores(
        scores(a=[1.0] * 8, b=[nan, *[0.0] * 7], few=[1.0, 1.0, 1.0, *[nan] * 5], none=[nan] * 8), "score"
    )
    assert result.algorithms == ("a", "b")
    assert result.num_scenarios == 7
    few, none, fewer_scenarios = result.remarks[:3]
    assert (few.split()[0], none.split()[0]) == ("few", "none")
    assert "3 of 8 scenarios" in few
    assert "0 of 8 scenarios" in none
    assert "7 of 8 scenarios" in fewer_scenarios


def test_a_remark_says_that_there_is_nothing_to_compare():
    few = compare_scores(scores(a=[1.0]), "score", num_scenarios=4)
    [remark] = few.remarks
    assert remark.startswith("Nothing to compare")
    assert "4 scenarios" in remark
    assert compare_scores({}, "score").algorithms == ()
    apart = compare_scores({"a": {0: {0: 1.0}}, "b": {1: {0: 1.0}}}, "score")
    assert apart.algorithms == ()
    assert apart.remarks[-1].startswith("Nothing to compare: no scenario")


def test_only_seeds_that_all_algorithms_have_are_averaged():
    """Seed 1 of `a` has no partner: without it the two are alike."""
    result = compare_scores({"a": {0: {0: 0.5, 1: 0.9}}, "b": {0: {0: 0.5}}}, "score")
    assert result.ranks == (1.5, 1.5)
    assert "1 scenario only the seeds" in result.remarks[0]


def test_a_study_is_compared_by_a_measure():
    runs = [
        result_of(run_of(name, clients=clients), labels)
        for clients in (10, 15, 20, 25, 30, 35)
        for name, labels in (("BNC", ONE), ("OCFL-HDB", WHOLE))
    ]
    result = compare(study_of(runs, [run_of("SCL", clients=10)]), FINAL_ARI)
    assert (result.measure, result.algorithms, result.ranks) == ("final ARI", ("OCFL-HDB", "BNC"), (1.0, 2.0))
    assert result.remarks[0].startswith("SCL is left out")
    assert "0 of 6 scenarios" in result.remarks[0]


def test_the_significance_table_marks_the_better_of_a_pair_and_repeats_the_remarks():
    result = compare_scores(scores(b=[0.0] * 6, a=[1.0, 2, 3, 4, 5, 6]), "last PF1")
    table = significance(result)
    assert table.name == "significance-last-pf1"
    assert [column.name for column in table.columns] == ["rank", "a", "b"]
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["1.00", "–", "0.031 +"],
        ["2.00", "0.031 -", "–"],
    ]
    assert "over the 6 scenarios" in table.caption
    assert "Two algorithms" in table.caption


def test_the_significance_table_without_tests_has_only_ranks():
    table = significance(compare_scores(scores(a=[1.0] * 5, b=[0.0] * 5), "score"))
    assert [[cell.text for cell in row.cells] for row in table.rows] == [["1.00"], ["2.00"]]
    assert "No tests" in table.caption


def test_the_significance_table_without_algorithms_has_only_the_remark():
    table = significance(compare_scores({}, "score"))
    assert table.rows == ()
    assert table.caption.startswith("Nothing to compare")
    assert "Average rank" not in table.caption
