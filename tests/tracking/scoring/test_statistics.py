"""Paired tests between algorithms, by examples that can be worked out by hand."""

from itertools import product

import numpy as np
import pytest

from fedgrid.tracking.scoring.measures import FINAL_ARI
from fedgrid.tracking.scoring.paired_tests import apply_holm, compute_average_ranks
from fedgrid.tracking.scoring.statistics import Comparison, compare_algorithms, compare_scores
from fedgrid.tracking.tables.significance import build_effects_table, build_significance_table
from tests.helpers.studies import ONE, WHOLE, make_result, make_run, make_study

AB = (("a", 1.0), ("b", 0.0))


def scores(**columns: list[float]) -> dict[str, dict[tuple[int, int], float]]:
    """One score a scenario, of one seed; NaN leaves the scenario out."""
    return {
        name: {(index, 0): value for index, value in enumerate(values) if not np.isnan(value)}
        for name, values in columns.items()
    }


def by_pair(result: Comparison) -> dict[tuple[str, str], float | None]:
    """Pair of algorithms -> p over scenarios."""
    return {(pair.one, pair.other): pair.p for pair in result.pairs}


def test_holm_multiplies_the_least_p_by_the_number_of_tests_and_never_decreases():
    """Ordered: 0.005 x 4 = 0.02, 0.01 x 3 = 0.03, 0.03 x 2 = 0.06, 0.04 x 1 = 0.04, lifted to 0.06."""
    assert apply_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert apply_holm([0.6, 0.7]) == [1.0, 1.0]
    assert apply_holm([]) == []


def test_ranks_are_averaged_and_ties_share_theirs():
    """By row: 1 2 3; 1.5 1.5 3; 2 2 2; the means are 4.5/3, 5.5/3 and 8/3."""
    losses_SA = np.array([[0.1, 0.2, 0.3], [0.1, 0.1, 0.3], [0.2, 0.2, 0.2]])
    assert compute_average_ranks(losses_SA) == pytest.approx([1.5, 5.5 / 3, 8 / 3])


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
    pairs = (("high", "middle"), ("high", "low"), ("middle", "low"))
    assert by_pair(result) == pytest.approx(dict.fromkeys(pairs, 3 * 2 / 256))
    assert all((pair.test.effect, pair.test.better) == (1.0, 8) for pair in result.pairs)
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
    p_values = by_pair(result)
    assert p_values["a", "b"] == 1.0
    assert p_values["a", "c"] == p_values["b", "c"] == 3 * 2 / 256


def test_equal_algorithms_are_one_clique_with_a_remark():
    result = compare_scores(scores(a=[0.5] * 6, b=[0.5] * 6, c=[0.5] * 6), "score")
    assert result.friedman_p == 1.0
    assert result.ranks == (2.0, 2.0, 2.0)
    assert result.cliques == (("a", "b", "c"),)
    assert "All algorithms have the same score in every scenario." in result.remarks
    assert set(by_pair(result).values()) == {None}


def test_five_scenarios_give_ranks_but_no_test():
    result = compare_scores(scores(a=[1.0] * 5, b=[0.0] * 5), "score")
    assert (result.ranks, result.pairs, result.cliques) == ((1.0, 2.0), (), ())
    [remark] = result.remarks
    assert remark.startswith("No tests")
    assert {"0.05", "6", "5."} <= set(remark.split())
    assert [[cell.text for cell in row.cells] for row in build_significance_table(result).rows] == [
        ["1.00"],
        ["2.00"],
    ]
    assert build_effects_table(result).rows == ()
    assert all(
        "No tests" in table.caption
        for table in (build_significance_table(result), build_effects_table(result))
    )


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
    apart = compare_scores({"a": {(0, 0): 1.0}, "b": {(1, 0): 1.0}}, "score")
    assert apart.algorithms == ()
    assert apart.remarks[-1].startswith("Nothing to compare: no scenario")


def test_only_seeds_that_all_algorithms_have_are_averaged():
    """Seed 1 of `a` has no partner: without it the two are alike."""
    result = compare_scores({"a": {(0, 0): 0.5, (0, 1): 0.9}, "b": {(0, 0): 0.5}}, "score")
    assert result.ranks == (1.5, 1.5)
    assert "1 scenario only the seeds" in result.remarks[0]


def test_a_block_is_a_scenario_and_not_a_seed_of_one():
    """Five scenarios with five seeds each are five blocks, too few for a test."""
    uneven = {name: dict.fromkeys([(0, 0), (1, 0), (1, 1), (1, 2)], score) for name, score in AB}
    assert "each the mean of 1 to 3 seeds" in compare_scores(uneven, "score").scope
    assert "seed" not in compare_scores(scores(a=[1.0], b=[0.0]), "score").scope
    columns = {name: dict.fromkeys(product(range(5), range(5)), score) for name, score in AB}
    result = compare_scores(columns, "score")
    assert (result.num_scenarios, result.pairs) == (5, ())
    assert "each the mean of 5 seeds" in build_significance_table(result).caption


def test_the_better_of_a_pair_is_by_its_signed_ranks_even_if_its_average_rank_is_worse():
    """`a` wins 20 scenarios by much, with `b` next to it in rank; `b` wins 10 by little, with all others
    between them. Average rank of `a`: (20 x 1 + 10 x 5) / 30 = 2.3; of `b`: (20 x 2 + 10 x 1) / 30 = 1.7.
    Ranks won: 11 to 30, lost: 1 to 10; the effect is (410 - 55) / 465.
    """
    rows = [(1 + i / 100, 0.5, 0.4, 0.3, 0.2) for i in range(20)]
    rows += [(0.1, 0.14 + i / 1000, 0.13, 0.12, 0.11) for i in range(10)]
    result = compare_scores(
        scores(**{name: list(column) for name, column in zip("abcde", zip(*rows, strict=True), strict=True)}),
        "score",
    )
    assert (result.algorithms[:2], result.ranks[:2]) == (("b", "a"), pytest.approx((5 / 3, 7 / 3)))
    [pair] = [pair for pair in result.pairs if {pair.one, pair.other} == {"a", "b"}]
    assert pair.test.effect == pytest.approx(-355 / 465)
    assert pair.is_significant
    cells = {
        row.name: dict(zip(result.algorithms, row.cells[1:], strict=True))
        for row in build_significance_table(result).rows
    }
    assert cells["a"]["b"].text.endswith(" +")
    assert cells["b"]["a"].text.endswith(" -")


def test_a_pair_with_five_differences_among_forty_scenarios_is_not_tested():
    """Whoever wins them: p is at least 2 / 2^5."""
    result = compare_scores(scores(a=[1.0] * 5 + [0.0] * 35, b=[0.0] * 40), "score")
    [pair] = result.pairs
    assert (pair.p, pair.test.p, pair.is_significant) == (None, 2 / 32, False)
    assert result.cliques == (("a", "b"),)
    assert [row.cells[1].text for row in build_significance_table(result).rows][:1] == ["–"]
    assert "1 of 1 pairs differs in fewer than 6 scenarios" in result.remarks[1]


def of_datasets(*differences: float) -> Comparison:
    """Compare `a`, which is better by so much in each data set of four scenarios, with `b`."""
    names = [f"{dataset}-{split}" for dataset in range(len(differences)) for split in range(4)]
    columns = {
        "a": {(name, 0): differences[int(name[0])] + int(name[2]) / 8 for name in names},
        "b": {(name, 0): int(name[2]) / 8 for name in names},
    }
    return compare_scores(columns, "score", find_dataset=lambda name: name[0])


def test_algorithms_are_compared_over_data_sets_too():
    """Differences of 0.1, 0.2 and 0.3: t = 0.2 / (0.1 / sqrt 3) = sqrt 12, and with two degrees of freedom
    p = 1 - t / sqrt(t^2 + 2) = 0.074. Over twelve scenarios: 2 / 2^12.
    """
    result = of_datasets(0.1, 0.2, 0.3)
    [pair] = result.pairs
    assert pair.p == 2 / 2**12
    assert pair.p_datasets == pytest.approx(1 - (12 / 14) ** 0.5)
    assert result.num_datasets == 3
    assert "12 scenarios are of 3 data sets" in result.remarks[-1]
    table = build_effects_table(result)
    assert [(row.section, row.name) for row in table.rows] == [("a against", "b")]
    texts = [cell.text for cell in table.rows[0].cells]
    assert texts == ["12", "0", "0", "1.00", "1.00", "1.00", "<0.001", "0.074"]


def test_friedmans_test_over_data_sets_ranks_their_means():
    """`a`, `b`, `c` rank alike in four data sets: 12 n / (k (k + 1)) x 2 = 8, two degrees: p = exp(-4)."""
    scenarios = [(dataset, split) for dataset in range(4) for split in range(2)]
    columns = {
        name: {(scenario, 0): better + scenario[0] / 10 + scenario[1] for scenario in scenarios}
        for better, name in enumerate("cba")
    }
    result = compare_scores(columns, "score", find_dataset=lambda scenario: str(scenario[0]))
    assert result.friedman_p_datasets == pytest.approx(np.exp(-4))
    assert "Over the means of the 4 data sets: p is 0.018." in build_significance_table(result).caption


def test_the_same_difference_in_all_data_sets_has_no_t_test():
    result = of_datasets(0.5, 0.5, 0.5)
    assert [pair.p_datasets for pair in result.pairs] == [None]
    assert build_effects_table(result).rows[0].cells[-1].text == "–"


@pytest.mark.parametrize(
    ("differences", "words"),
    [((0.1, 0.2), "p over data sets (which takes 3 or more) of others"), ((0.1,) * 2, "2 data")],
)
def test_two_data_sets_have_no_test_over_data_sets_and_say_so(differences, words):
    result = of_datasets(*differences)
    assert (result.num_datasets, result.friedman_p_datasets) == (0, None)
    assert [column.name for column in build_effects_table(result).columns][-1] == "scenarios"
    assert words in result.remarks[-1]


def test_scenarios_of_one_data_set_are_said_to_share_its_images():
    columns = scores(a=[1.0] * 8, b=[index / 10 for index in range(8)])
    result = compare_scores(columns, "score", find_dataset=lambda _: "digits")
    assert "one data set" in result.remarks[-1]
    assert "not independent" in result.remarks[-1]
    assert "not independent" in build_significance_table(result).caption
    assert "not independent" in build_effects_table(result).caption


def test_scenarios_of_as_many_data_sets_are_independent_and_tested_once():
    result = compare_scores(scores(a=[1.0] * 8, b=[0.0] * 8), "score", find_dataset=str)
    assert result.num_datasets == 0
    assert not any("independent" in remark for remark in result.remarks)


def test_effects_have_wins_interval_and_p_beside_each_other():
    """`a` wins 7 of 8 and loses by the least: ranks 35 to 1 of 36; 2 x 2 of 2^8 choices are as far."""
    table = build_effects_table(
        compare_scores(scores(a=[-0.1, 1, 2, 3, 4, 5, 6, 7], b=[0.0] * 8), "last PF1")
    )
    assert table.name == "effects-last-pf1"
    assert [f"{column.group} {column.name}".strip() for column in table.columns] == [
        *("scenarios better", "scenarios equal", "scenarios worse", "effect", "low", "high"),
        "p over scenarios",
    ]
    better, equal, worse, effect, low, high, p = table.rows[0].cells
    assert (better.value, equal.value, worse.value) == (7, 0, 1)
    assert effect.value == pytest.approx(34 / 36)
    assert 0 < low.value < effect.value < high.value == 1.0
    assert (p.value, p.bold) == (4 / 256, True)


def test_a_study_is_compared_by_a_measure():
    runs = [
        make_result(make_run(name, clients=clients), labels)
        for clients in (10, 15, 20, 25, 30, 35)
        for name, labels in (("fedavg", ONE), ("briggs", [range(6)] * 2), ("ocfl-hdbscan", WHOLE))
    ]
    result = compare_algorithms(make_study(runs, [make_run("sattler", clients=10)]), FINAL_ARI)
    assert (result.measure, result.algorithms, result.ranks) == (
        "final ARI",
        ("ocfl-hdbscan", "briggs"),
        (1.0, 2.0),
    )
    assert result.remarks[0].startswith("sattler is left out")
    assert "0 of 6 scenarios" in result.remarks[0]
    assert "one data set" in result.remarks[-2]
    assert result.remarks[-1].startswith("fedavg has one cluster in every run")


def test_the_significance_table_of_two_algorithms_marks_the_better_one_and_has_no_friedman_test():
    result = compare_scores(scores(b=[0.0] * 6, a=[1.0, 2, 3, 4, 5, 6]), "last PF1")
    assert result.friedman_p is None
    assert by_pair(result) == {("a", "b"): 2 / 64}
    table = build_significance_table(result)
    assert table.name == "significance-last-pf1"
    assert [column.name for column in table.columns] == ["rank", "a", "b"]
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["1.00", "–", "0.031 +"],
        ["2.00", "0.031 -", "–"],
    ]
    assert "over the 6 scenarios" in table.caption
    assert "Two algorithms" in table.caption
    assert "Friedman" in table.caption


def test_the_significance_table_without_algorithms_has_only_the_remark():
    table = build_significance_table(compare_scores({}, "score"))
    assert table.rows == ()
    assert table.caption.startswith("Nothing to compare")
    assert "Average rank" not in table.caption
