"""A paper's table: rows and columns by axes, means over the others, tests paired by seed."""

import csv
import io
from dataclasses import replace

import pytest
from scipy.stats import ttest_rel

from fedgrid.tracking.scoring.paired_tests import compute_seeds_p, differences_by_seed
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.by_axes import by_axes
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown
from tests.helpers.studies import ONE, make_result, make_run, make_study

fedavg = (0.50, 0.52, 0.51)
"""Accuracy by seed."""
sattler = (0.60, 0.63, 0.61)
EPOCHS = "training.local_epochs"


def study(*, lacking: str = "") -> Study:
    """Return two algorithms on two splits with three seeds; on the second split sattler is 0.1 lower.

    `lacking` is an algorithm that is not finished with seed 2 of the second split.
    """
    found, missing = [], []
    for split, less in (("nonoverlapping-balanced", {}), ("overlapping-balanced", {"sattler": 0.1})):
        for algorithm, accuracies in (("fedavg", fedavg), ("sattler", sattler)):
            for seed, accuracy in enumerate(accuracies):
                run = make_run(algorithm, split=split, seed=seed)
                if algorithm == lacking and seed == 2 and less:
                    missing.append(run)
                    continue
                curve = (0.0, accuracy - less.get(algorithm, 0.0))
                found.append(make_result(run, ONE, curves={"personalised_accuracy": curve}))
    return make_study(found, missing)


def with_epochs(given: Study) -> Study:
    """Return the study with its splits as values of an axis, in one split."""
    values = {"nonoverlapping-balanced": "10", "overlapping-balanced": "5"}
    runs = tuple(
        replace(run, split="iid", axes=((EPOCHS, values[run.split]),), values={EPOCHS: values[run.split]})
        for run in given.runs
    )
    return replace(given, runs=runs)


def values(table):
    return {
        (row.section, row.name, column.heading): cell.value
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    }


def test_table_of_predicted_numbers_without_a_score_has_r2_and_its_median_and_pooled():
    r2 = {"personalised_r2": (-9.0,), "personalised_r2_median": (0.3,), "personalised_r2_pooled": (0.4,)}
    predicting = make_result(make_run("fedavg"), ONE, curves=r2)
    assert list(values(by_axes(make_study([predicting]))).values()) == [-9.0, 0.3, 0.4]
    accurate = make_result(make_run("sattler"), ONE, curves={"personalised_accuracy": (0.5,)})
    assert len(by_axes(make_study([predicting, accurate])).columns) == 1


def test_key_without_effect_on_a_split_is_in_no_heading_of_it():
    """Two values of alpha, and label-skew, which has none."""
    alphas = {"nonoverlapping-balanced": "0.1", "overlapping-balanced": "10", "label-skew": "1"}
    found = [
        make_result(make_run("fedavg", split=split), ONE, curves={"personalised_accuracy": (0.5,)})
        for split in alphas
    ]
    part = make_study(found)
    runs = tuple(
        replace(
            run,
            split="dirichlet" if alphas[run.split] != "1" else run.split,
            axes=(("split.alpha", alphas[run.split]),),
            values={"split.alpha": alphas[run.split]},
            idle=frozenset(["split.alpha"]) if run.split == "label-skew" else frozenset(),
        )
        for run in part.runs
    )
    part = replace(part, runs=runs)
    headings = {"dirichlet, alpha 0.1", "dirichlet, alpha 10", "label-skew"}
    table = by_axes(part)
    assert {f"{column.group}, {column.name}".removeprefix(", ") for column in table.columns} == headings
    assert [cell.value for cell in table.rows[0].cells] == [0.5] * 3
    rows = by_axes(part, rows=["alpha"]).rows
    assert [row.name for row in rows] == ["–", "alpha 0.1", "alpha 10"]


def test_rows_are_algorithms_and_columns_the_scenarios_without_being_named():
    table = by_axes(study())
    assert [row.name for row in table.rows] == ["fedavg", "sattler"]
    assert [column.name for column in table.columns] == ["nonoverlapping balanced", "overlapping balanced"]
    assert values(table)["", "sattler", "overlapping balanced"] == pytest.approx(sum(sattler) / 3 - 0.1)
    assert [[cell.bold for cell in row.cells] for row in table.rows] == [[False, False], [True, True]]
    assert "3 seeds" in table.caption


def test_axes_that_are_not_named_are_averaged_and_the_caption_says_so():
    table = by_axes(study(), columns=["datasets"])
    assert values(table) == {
        ("", "fedavg", "mnist"): pytest.approx(sum(fedavg) / 3),
        ("", "sattler", "mnist"): pytest.approx(sum(sattler) / 3 - 0.05),
    }
    assert "Mean over 2 splits" in table.caption


def test_rows_of_two_axes_are_sections_with_algorithms_above():
    table = by_axes(study(), rows=["split", "seed"])
    assert [column.name for column in table.columns] == ["fedavg", "sattler"]
    assert (table.rows[4].section, table.rows[4].name) == ("overlapping balanced", "seed 1")
    assert table.rows[4].cells[1].value == pytest.approx(0.53)


def test_further_axis_by_its_last_word_stands_in_the_order_of_its_numbers():
    table = by_axes(with_epochs(study()), columns=["local_epochs"])
    assert [column.name for column in table.columns] == ["local_epochs 5", "local_epochs 10"]


def test_several_scores_are_columns_below_each_scenario():
    table = by_axes(study(), ["personalised_accuracy", "clusters"], columns=["split"])
    assert [column.heading for column in table.columns[:2]] == [
        "nonoverlapping balanced: personalised accuracy",
        "nonoverlapping balanced: clusters",
    ]
    assert [row.cells[1].bold for row in table.rows] == [False, False]


def test_final_score_that_is_no_curve_is_a_share_of_runs():
    exact = [make_result(make_run(seed=seed), ONE, ONE[0]) for seed in (0, 1)]
    exact[0].scores["exactly_right"] = True
    exact[1].scores["exactly_right"] = False
    assert by_axes(make_study(exact), ["exactly_right"]).rows[0].cells[0].value == 0.5


def test_paired_test_over_seeds_is_scipys_and_marks_what_is_worse():
    table = by_axes(study(), against="sattler")
    first, second = table.rows[0].cells
    assert first.p == pytest.approx(ttest_rel(fedavg, sattler).pvalue)
    assert (first.notes, table.rows[1].cells[0].notes) == (("-",), ())
    assert second.p == pytest.approx(ttest_rel(fedavg, [value - 0.1 for value in sattler]).pvalue)
    assert second.notes == ()
    assert all(word in table.caption for word in ("worse than sattler", "paired by seed", "Holm"))


def test_less_is_better_of_a_loss():
    results = [
        make_result(make_run(name, seed=seed), ONE, curves={"personalised_loss": (1.0, loss)})
        for name, losses in (("fedavg", fedavg), ("sattler", sattler))
        for seed, loss in enumerate(losses)
    ]
    table = by_axes(make_study(results), ["personalised_loss"], against="sattler")
    assert (table.rows[0].cells[0].notes, table.rows[0].cells[0].bold) == (("+",), True)


def test_seeds_that_one_of_two_lacks_in_a_scenario_are_in_no_pair():
    one = {("a", 0): 1.0, ("b", 0): 3.0, ("a", 1): 5.0, ("b", 1): 5.0, ("a", 2): 9.0, ("b", 2): 9.0}
    other = {("a", 0): 0.0, ("b", 0): 0.0, ("a", 1): 5.0, ("b", 1): 4.0, ("a", 2): 0.0}
    assert differences_by_seed(one, other).tolist() == [2.0, 0.5]


@pytest.mark.parametrize(("differences", "p"), [([1.0, 1.0], None), ([0.0] * 3, 1.0), ([0.25] * 3, 0.0)])
def test_equal_differences_have_the_limit_of_p_and_two_seeds_none(differences, p):
    assert (
        compute_seeds_p(
            differences_by_seed(
                {("a", at): x for at, x in enumerate(differences)}, {("a", at): 0.0 for at in range(3)}
            )
        )
        == p
    )


def test_p_and_marks_are_in_every_format():
    table = by_axes(study(), against="sattler", columns=["split"])
    row = next(csv.DictReader(io.StringIO(to_csv(table))))
    assert float(row["nonoverlapping balanced p"]) == table.rows[0].cells[0].p
    assert r"0.510 $\pm$ 0.010\textsuperscript{-}" in to_latex(table)
    assert "0.510 ± 0.010<sup>-</sup>" in to_markdown(table)


def test_mean_that_lacks_a_run_counts_them_and_is_not_compared():
    table = by_axes(study(lacking="sattler"))
    assert table.rows[1].cells[1].text.endswith("(2/3)")
    assert not any(row.cells[1].bold for row in table.rows)
    assert "1 of 12 runs has no result yet" in table.caption


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"scores": ["arri"]}, "no score 'arri'; did you mean 'ari'"),
        ({"scores": ["balanced_accuracy"]}, "did you mean 'personalised_balanced_accuracy'"),
        ({"scores": ["auc"]}, "'personalised_auc'.*evaluation.probabilities=true"),
        ({"scores": ["generalised_ece"]}, "evaluation.probabilities=true"),
        ({"scores": ["global_accuracy"]}, "evaluation.global_model=true"),
        ({"rows": ["splt"]}, "no axis 'splt'; did you mean 'split'"),
        ({"rows": ["split"], "columns": ["splits"]}, "split is both"),
        ({"rows": ["split"], "columns": ["dataset"]}, "2 algorithms would be averaged"),
        ({"against": "fedag"}, "fedag"),
        ({"against": "sattler", "scores": ["clusters"]}, "clusters cannot be tested"),
        ({"against": "sattler", "columns": ["seed"]}, "nothing to test.*--seeds"),
    ],
)
def test_what_cannot_be_shown_is_refused(asked, says):
    with pytest.raises(ValueError, match=says):
        by_axes(study(), **asked)


def test_setting_in_which_runs_do_not_differ_alone_is_no_axis():
    """Its table would have no rows."""
    runs = [replace(run, values={"algorithm.aggregate.keep": 0.5}) for run in study().runs]
    with pytest.raises(ValueError, match=r"algorithm\.aggregate\.keep"):
        by_axes(replace(study(), runs=tuple(runs)), rows=["algorithm.aggregate.keep"])
