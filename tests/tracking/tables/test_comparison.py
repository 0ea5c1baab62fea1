"""Two grids side by side."""

from dataclasses import replace

import pytest

from fedgrid.tracking.tables.comparison import build_comparison_tables, describe_unpaired, pair_algorithms
from tests.helpers.studies import ONE, TRUTH_K, WHOLE, make_result, make_run, make_study

LATE = [(0,) * 6, TRUTH_K]
SPLITS = [(n, balance) for n in (15, 30, 60) for balance in ("balanced", "imbalanced")]


def grid(name, *runs, lacking=()):
    return make_study([make_result(run, labels) for run, labels in runs], lacking, name)


def table_of(tables, name):
    return next(table for table in tables if table.name == name)


def texts(table):
    return [(row.section, row.name, *(cell.text for cell in row.cells)) for row in table.rows]


def test_equal_names_are_paired_first_and_then_what_stands_beside_the_same_published_row():
    one = grid("one", *((make_run(name), ONE) for name in ("ocfl-hdbscan", "sattler", "fedavg")))
    other = grid(
        "other",
        *((make_run(name), ONE) for name in ("ocfl-hdbscan-as-published", "sattler-as-published", "sattler")),
    )
    assert pair_algorithms(one, other) == {
        "sattler": "sattler",
        "ocfl-hdbscan": "ocfl-hdbscan-as-published",
    }
    assert {row.name for row in build_comparison_tables(one, other)[0].rows} == {
        *("sattler", "ocfl-hdbscan / ocfl-hdbscan-as-published"),
    }


def test_algorithms_of_the_same_settings_are_paired_first():
    """A grid whose runs all aggregate by Krum does not name it."""

    def with_aggregate(name, aggregate):
        return replace(make_run(name), method="fedavg", values={"algorithm.aggregate": aggregate}), ONE

    one = grid("one", with_aggregate("fedavg", "krum"))
    other = grid("other", with_aggregate("fedavg", "mean"), with_aggregate("fedavg (aggregate krum)", "krum"))
    assert pair_algorithms(one, other) == {"fedavg": "fedavg (aggregate krum)"}


def test_means_difference_and_p_over_six_pairs():
    """Six wins of six: p is 2 / 2^6."""
    one = grid(
        "one", *((make_run("sattler", clients=n, split=f"nonoverlapping-{b}"), WHOLE) for n, b in SPLITS)
    )
    other = grid(
        "other", *((make_run("sattler", clients=n, split=f"nonoverlapping-{b}"), LATE) for n, b in SPLITS)
    )
    table = table_of(build_comparison_tables(one, other), "compare-mean-ari")
    assert [column.name for column in table.columns] == [
        *("pairs", "one", "other", "difference", "effect", "low", "high", "p"),
    ]
    (row,) = table.rows
    assert (row.section, row.name) == ("mnist", "sattler")
    assert [cell.text for cell in row.cells] == ["6", "1.000", "0.500", "+0.500", *["1.00"] * 3, "0.031"]
    assert row.cells[3].tone == "better"
    assert row.cells[-1].value == pytest.approx(2 / 64)
    final = table_of(build_comparison_tables(one, other), "compare-final-ari").rows[0]
    assert [cell.text for cell in final.cells] == ["6", "1.000", "1.000", "0.000", *["0.00"] * 3, "–"]
    assert final.cells[3].tone == ""


def test_four_pairs_that_differ_among_eight_have_an_effect_and_no_p():
    """Ranks 5 to 8 of 1 to 8 are won: 26 / 36."""
    runs = [
        make_run("sattler", clients=n, split=f"nonoverlapping-{b}")
        for n in (15, 30, 45, 60)
        for b in ("balanced", "imbalanced")
    ]
    one = grid("one", *((run, WHOLE) for run in runs))
    other = grid("other", *((run, LATE if run.clients > 30 else WHOLE) for run in runs))
    (row,) = table_of(build_comparison_tables(one, other), "compare-mean-ari").rows
    assert row.cells[4].text == "0.72"
    assert row.cells[-1].text == "–"


def test_runs_are_paired_by_seed_and_seeds_of_one_grid_alone_are_left_out():
    """Seeds 1 and 2 are common, with scores 0 and 1 against 1 and 1: their deviation is sqrt(1 / 2)."""
    one = grid("one", *((make_run("sattler", seed=n), WHOLE if n != 1 else ONE) for n in (0, 1, 2)))
    other = grid("other", *((make_run("sattler", seed=n), WHOLE) for n in (1, 2, 7)))
    tables = build_comparison_tables(one, other)
    assert texts(table_of(tables, "compare-final-ari")) == [
        ("mnist", "sattler", "1", "0.500 ± 0.707", "1.000 ± 0.000", "-0.500", *["–"] * 4)
    ]
    assert texts(tables[-1])[0][2] == "0.500 ± 0.707 / 1.000 ± 0.000"
    for words in ("2 pairs of runs by seed", "seed 0 of one, seed 7 of other", "mean ± standard"):
        assert words in tables[0].caption


def test_grids_without_a_common_seed_cannot_be_paired():
    one, other = (
        grid("one", (make_run("sattler"), WHOLE)),
        grid("other", (make_run("sattler", seed=7), WHOLE)),
    )
    assert not any(table.rows for table in build_comparison_tables(one, other))
    assert "0 (one) and 7 (other)" in describe_unpaired(one, other)


def test_runs_of_the_archive_which_has_no_seeds_are_paired_with_all_seeds():
    one = grid("one", *((make_run("sattler", seed=n), labels) for n, labels in ((3, WHOLE), (4, ONE))))
    archived = replace(make_run("sattler"), is_archived=True)
    tables = build_comparison_tables(one, grid("other", (archived, WHOLE)))
    assert texts(tables[0]) == [("mnist", "sattler", "1", "0.500 ± 0.707", "1.000", "-0.500", *["–"] * 4)]
    assert "other has no seeds" in tables[0].caption


def test_cells_without_a_partner_are_counted_named_and_in_no_mean():
    late = make_run("sattler", split="overlapping-balanced")
    one = grid("one", (make_run("sattler"), WHOLE), (late, ONE))
    other = grid("other", (make_run("sattler"), WHOLE), (make_run("fedavg"), ONE), lacking=[late])
    tables = build_comparison_tables(one, other)
    assert texts(tables[0]) == [("mnist", "sattler", "1", "1.000", "1.000", "0.000", *["–"] * 4)]
    assert tables[0].caption.count("1 pair of scenario and algorithm") == 1
    assert (
        "2 without a finished partner are left out: mnist 15 overlapping-balanced sattler (one); "
        "mnist 15 nonoverlapping-balanced fedavg (other)."
    ) in tables[0].caption
    assert "other: 1 of 3 runs has no result yet." in tables[0].caption


def test_a_measure_that_one_grid_lacks_is_in_no_pair():
    """A run that never clusters has no clustering round; no run here has tested a client."""
    one, other = (
        grid(name, (make_run("sattler"), labels)) for name, labels in (("one", LATE), ("other", ONE))
    )
    tables = build_comparison_tables(one, other)
    assert texts(table_of(tables, "compare-clustering-round")) == [("mnist", "sattler", "0 of 1", *["–"] * 7)]
    assert texts(tables[-1]) == [
        (
            *("mnist 15 nonoverlapping-balanced", "sattler"),
            *("1.000 / 0.000", "0.500 / 0.000", "0.50 / 0.00", "2.0 / –", "–", "–", "–"),
        )
    ]
    assert [cell.tone for cell in tables[-1].rows[0].cells] == ["better"] * 3 + [""] * 4
    assert tables[-1].rows[0].cells[1].reference == 0.0


def test_grids_with_nothing_in_common_have_empty_tables_whose_caption_says_so():
    tables = build_comparison_tables(
        grid("one", (make_run("sattler"), ONE)), grid("other", (make_run("fedavg"), ONE))
    )
    assert all(not table.rows for table in tables)
    assert "0 pairs" in tables[0].caption


def test_difference_in_a_choice_is_said_once():
    def with_keep(name, keep):
        values = {"algorithm.aggregate": {"name": "krum", "keep": keep}, "algorithm.aggregate.keep": keep}
        return grid(name, (replace(make_run("fedavg"), method="fedavg", values=values), WHOLE))

    caption = build_comparison_tables(with_keep("one", 0.2), with_keep("other", 0.5))[0].caption
    assert "Runs of a pair differ in: algorithm.aggregate.keep (0.2 against 0.5)." in caption


def test_pairs_that_differ_in_more_than_the_grid_say_in_what():
    """A setting of the algorithm that both have counts, one that only the scores' names have does not."""

    def grid(name, keys):
        run = replace(make_run("briggs"), values=keys, method="briggs")
        return make_study([make_result(run, WHOLE)], name=name)

    one = grid(
        "one", {"training.rounds": "5", "participation": "1", "seed": "0", "algorithm.threshold": "0.3"}
    )
    other = grid("other", {"training.rounds": "10", "participation": "1", "seed": "1"})
    caption = build_comparison_tables(one, other)[0].caption
    assert (
        "Runs of a pair differ in: algorithm.threshold (0.3 against none), training.rounds (5 against 10)."
        in caption
    )
    assert "differ in" not in build_comparison_tables(one, grid("same", one.runs[0].keys))[0].caption
