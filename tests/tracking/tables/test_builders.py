"""Tables of a study: whole ones, ones with seeds, and ones of which runs are not there yet."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from fedgrid.tracking.tables.clustering import (
    build_clustering_table,
    build_exactly_right_table,
    build_published_rounds_table,
    build_rounds_table,
    published_clustering,
)
from fedgrid.tracking.tables.formats import to_csv
from fedgrid.tracking.tables.personalisation import (
    LAST,
    MEAN,
    build_fairness_table,
    build_personalisation_table,
    build_published_personalisation_table,
)
from fedgrid.tracking.tables.scenarios import build_scenarios_table, overview
from fedgrid.tracking.tables.table import ABSENT, NONE
from tests.helpers.studies import ONE, TRUTH_K, WHOLE, make_result, make_run, make_study, read_texts

SINGLES = [tuple(range(6))] * 2
"""Labels of a run that leaves every client alone: homogeneous, ARI and AMI 0."""
LATE = [(0,) * 6, TRUTH_K]
"""Labels of a run that is right in the second of its two rounds."""


def by_name(**runs):
    """A study of one scenario: algorithm -> labels of seed 0, or a list of labels by seed."""
    return make_study(
        [
            make_result(make_run(name.replace("_", "-"), seed=seed), labels_RK)
            for name, by_seed in runs.items()
            for seed, labels_RK in enumerate(by_seed)
        ]
    )


def test_table_1_has_dashes_for_one_cluster_and_scores_for_singletons():
    """The late run is right in 1 of 2 rounds: 0.5 everywhere."""
    table = published_clustering(by_name(fedavg=[ONE], briggs=[SINGLES], ocfl_hdbscan=[LATE]))
    assert table.name == "table1-mnist-15"
    assert [(column.group, column.name) for column in table.columns] == [
        ("nonoverlapping balanced", name) for name in ("RAND", "AMI", "COM")
    ]
    assert read_texts(table) == {
        "fedavg": [NONE, NONE, NONE],
        "briggs": ["0.00", "0.00", "1.00"],
        "ocfl-hdbscan": ["0.50", "0.50", "0.50"],
    }
    assert [cell.bold for cell in table.rows[1].cells] == [False, False, True]
    assert [cell.bold for cell in table.rows[2].cells] == [True, True, False]
    assert [cell.value for cell in table.rows[0].cells] == [0.0, 0.0, 0.0]
    assert "One seed." in table.caption


def test_a_split_that_is_none_of_the_papers_stands_after_theirs():
    """In the order of the runs, in which it comes first here."""
    study = make_study(
        [
            make_result(make_run(split=split, clients=clients), WHOLE)
            for split in ("majority", "overlapping-balanced", "nonoverlapping-balanced")
            for clients in (15, 10)
        ]
    )
    splits = ("nonoverlapping-balanced", "overlapping-balanced", "majority")
    assert study.splits == splits
    assert study.scenarios == tuple(("mnist", clients, split) for clients in (10, 15) for split in splits)
    groups = [column.group for column in build_clustering_table(study.where(clients=10), final=True).columns]
    assert list(dict.fromkeys(groups)) == ["nonoverlapping balanced", "overlapping balanced", "majority"]


def test_seeds_that_did_not_cluster_count_as_zero_beside_one_that_did():
    """Means of 1 and 0; their standard deviation is sqrt(1 / 2)."""
    table = published_clustering(by_name(sattler=[WHOLE, ONE]))
    assert read_texts(table)["sattler"] == ["0.50 ± 0.71"] * 3
    assert "2 seeds: mean ± standard deviation (n - 1)." in table.caption


def test_a_cell_without_a_finished_run_is_empty_and_its_runs_are_counted_and_named():
    whole = by_name(fedavg=[ONE], sattler=[WHOLE])
    scl_1, late = make_run("sattler", seed=1), make_run("ocfl-hdbscan")
    table = published_clustering(make_study(whole.finished, [scl_1, late]))
    assert read_texts(table) == {
        "fedavg": [NONE] * 3,
        "sattler": ["1.00 (1/2)"] * 3,
        "ocfl-hdbscan": ["", "", ""],
    }
    assert not table.rows[1].cells[0].bold
    assert "In brackets" in table.caption
    assert table.caption.endswith(" 2 of 4 runs have no result yet.")


def test_a_scenario_that_the_grid_lacks_is_marked_absent_and_not_as_unfinished():
    other = make_result(make_run("fedavg", split="overlapping-balanced"), WHOLE)
    table = published_clustering(make_study([*by_name(sattler=[WHOLE]).finished, other]))
    assert read_texts(table) == {
        "sattler": ["1.00"] * 3 + [ABSENT] * 3,
        "fedavg": [ABSENT] * 3 + ["1.00"] * 3,
    }
    assert f"{ABSENT}: not in this grid." in table.caption
    assert "no result yet" not in table.caption


def test_a_table_of_one_data_set_and_number_of_clients_refuses_two():
    study = make_study([make_result(make_run(clients=n), ONE) for n in (15, 30)])
    with pytest.raises(ValueError, match="values of clients .*15, 30"):
        published_clustering(study)
    with pytest.raises(ValueError, match="values of dataset .*mnist, digits"):
        build_rounds_table(
            make_study([make_result(make_run(dataset=name), ONE) for name in ("mnist", "digits")])
        )


def test_the_right_scores_have_homogeneity_and_completeness():
    """One cluster is complete in both rounds; singletons are homogeneous, and complete to the extent of
    log 3 / log 6: within a group of three all information about the client is lost.
    """
    study = by_name(fedavg=[ONE], briggs=[SINGLES], ocfl_hdbscan=[LATE])
    complete = 1 - np.log(3) / np.log(6)
    assert read_texts(build_clustering_table(study, final=False)) == {
        "fedavg": ["0.000", "0.000", "0.000", "1.000"],
        "briggs": ["0.000", "0.000", "1.000", f"{complete:.3f}"],
        "ocfl-hdbscan": ["0.500", "0.500", "0.500", "1.000"],
    }
    assert read_texts(build_clustering_table(study, final=True))["ocfl-hdbscan"] == ["1.000"] * 4
    assert build_clustering_table(study, final=True).name == "clustering-final-mnist-15"


def test_table_2_counts_from_1_and_has_a_dash_for_never():
    table = build_published_rounds_table(
        by_name(fedavg=[ONE], sattler=[LATE], ocfl_hdbscan=[LATE, ONE]).where(algorithm="sattler")
    )
    assert read_texts(table) == {"sattler": ["2"]}
    table = build_published_rounds_table(by_name(fedavg=[ONE], ocfl_hdbscan=[LATE, ONE]))
    assert read_texts(table) == {"fedavg": [NONE], "ocfl-hdbscan": ["2.0 (1/2)"]}
    assert table.rows[0].cells[0].value == 1.0
    assert table.name == "table2-mnist-15"


def test_rounds_are_the_first_decision_and_the_last_change():
    """A decision for one cluster is a clustering round without a change."""
    decided = make_result(make_run("ocfl-affinity"), ONE, clustered=[2])
    study = make_study([decided, *by_name(fedavg=[ONE], sattler=[[(0, 1, 1, 1, 1, 1), TRUTH_K]]).finished])
    assert read_texts(build_rounds_table(study)) == {
        "ocfl-affinity": ["2", NONE],
        "fedavg": [NONE, NONE],
        "sattler": ["1", "2"],
    }


def test_exactly_right_counts_finished_runs_and_says_how_many_there_are_to_be():
    results = [
        *by_name(sattler=[WHOLE, ONE]).finished,
        make_result(make_run("sattler", dataset="digits"), LATE),
        make_result(make_run("fedavg", dataset="digits"), ONE),
    ]
    table = build_exactly_right_table(make_study(results, [make_run("fedavg"), make_run("sattler", seed=2)]))
    assert [column.name for column in table.columns] == ["sattler", "fedavg"]
    assert read_texts(table) == {
        "mnist": ["1/2 of 3", ""],
        "digits": ["1/1", "0/1"],
        "total": ["2/3 of 4", "0/1 of 2"],
    }


def scored(algorithm, pf1, *, split="nonoverlapping-balanced", seed=0, curve="personalised_f1"):
    curves = {curve: pf1, "generalised_f1": [0.1, 0.2]} if curve == "personalised_f1" else {curve: pf1}
    return make_result(make_run(algorithm, split=split, seed=seed), WHOLE, curves=curves)


def test_personalisation_is_averaged_over_rounds_seeds_and_scenarios():
    """Means over rounds 0.3 and 0.5, of scenarios; last rounds 0.4 and 0.8. The gap is not measured."""
    study = make_study(
        [scored("sattler", [0.2, 0.4]), scored("sattler", [0.2, 0.8], split="overlapping-balanced")]
    )
    table = build_personalisation_table(study)
    assert table.name == "personalisation-mnist"
    headings = [(column.group, column.name) for column in table.columns]
    cells = dict(zip(headings, table.rows[0].cells, strict=True))
    assert headings[::6] == [("mean over rounds", "pers. F1"), ("last round", "pers. F1")]
    assert cells["mean over rounds", "pers. F1"].text == "0.400"
    assert cells["last round", "pers. F1"].text == "0.600"
    assert cells["last round", "gen. F1"].text == "0.200"
    assert cells["last round", "gap"].text == NONE
    assert build_published_personalisation_table(study).name == "personalisation-published-mnist"


def test_a_published_gf1_that_was_not_tested_has_its_reason_in_the_caption():
    untested = scored("sattler", [0.2], curve="published_pf1")
    tested = make_result(make_run("briggs"), WHOLE, curves={"published_pf1": [0.3], "published_gf1": [0.1]})
    table = build_published_personalisation_table(make_study([untested, tested]))
    assert "of 1 of 2 finished runs" in table.caption
    assert "evaluation.local_server: true" in table.caption
    texts = {row.name: [cell.text for cell in row.cells[:2]] for row in table.rows}
    assert texts == {"briggs": ["0.300", "0.100"], "sattler": ["0.200", NONE]}
    assert "local_server" not in build_published_personalisation_table(make_study([tested])).caption


def test_local_models_tested_in_the_last_round_only_have_a_dash_for_the_mean():
    curves = {"published_pf1": [0.3, 0.5], "published_gf1": [np.nan, 0.1]}
    run = make_result(make_run(), WHOLE, curves=curves)
    run = replace(run, scores={**run.scores, "published_gf1": None})
    table = build_published_personalisation_table(make_study([run]))
    places = [(column.group, column.name) for column in table.columns]
    cells = dict(zip(places, table.rows[0].cells, strict=True))
    assert [cells[span, name].text for span in (MEAN, LAST) for name in ("PF1", "GF1")] == [
        *("0.400", NONE, "0.500", "0.100"),
    ]
    assert "No means of GF1, GA and gap of 1 of 1 finished runs" in table.caption


def test_a_mean_over_scenarios_has_the_spread_of_its_seeds():
    """By seed: (0.2 + 0.4) / 2 = 0.3 and (0.4 + 0.8) / 2 = 0.6; mean 0.45, deviation 0.3 / sqrt 2."""
    runs = [
        scored("sattler", [score], split=split, seed=seed)
        for seed, scores in enumerate([(0.2, 0.4), (0.4, 0.8)])
        for score, split in zip(scores, ("nonoverlapping-balanced", "overlapping-balanced"), strict=True)
    ]
    table = build_personalisation_table(make_study(runs))
    cell = table.rows[0].cells[0]
    assert (cell.text, cell.count, cell.seeds) == ("0.450 ± 0.212", 4, 2)
    assert "2 seeds: mean ± standard deviation" in table.caption


def test_a_mean_over_scenarios_that_misses_some_says_so():
    """One scenario counts as much as the other, though it has one seed only: (0.3 + 0.8) / 2."""
    runs = [
        scored("sattler", [0.2]),
        scored("sattler", [0.4], seed=1),
        scored("sattler", [0.8], split="overlapping-balanced"),
    ]
    table = build_personalisation_table(
        make_study(runs, [make_run("sattler", split="overlapping-balanced", seed=1)])
    )
    cell = table.rows[0].cells[0]
    assert (cell.text, cell.tone, cell.spread) == ("0.550 (3/4)", "partial", None)


def test_several_data_sets_have_a_part_each_and_one_of_all():
    table = build_personalisation_table(
        make_study([make_result(make_run(dataset=name), ONE) for name in ("mnist", "digits")])
    )
    assert [row.section for row in table.rows] == ["mnist", "digits", "all scenarios"]


def test_the_overview_ranks_by_the_right_f1_and_without_it_by_the_published():
    right = make_study([scored("sattler", [0.2]), scored("ocfl-hdbscan", [0.4])])
    table = overview(right)
    assert [column.name for column in table.columns] == [
        *("finished", "exactly right", "final ARI"),
        *("last personalised F1", "last generalised F1", "mean rank"),
    ]
    assert read_texts(table)["ocfl-hdbscan"] == ["1/1", "1/1", "1.000", "0.400", "0.200", "1.00"]
    archived = make_study(
        [scored(name, [pf1], curve="published_pf1") for name, pf1 in (("sattler", 0.2), ("fedavg", 0.4))]
    )
    table = overview(archived)
    assert table.columns[3].name == "last PF1 as published"
    assert read_texts(table)["sattler"] == ["1/1", "1/1", "1.000", "0.200", NONE, "2.00"]


def test_the_table_of_all_scenarios_names_the_unfinished_runs_of_a_row():
    study = make_study(
        by_name(fedavg=[WHOLE]).finished,
        [make_run(seed=1), make_run("sattler", split="overlapping-balanced")],
    )
    lines = list(csv.DictReader(io.StringIO(to_csv(build_scenarios_table(study)))))
    assert [line["algorithm"] for line in lines] == ["fedavg", "sattler"]
    assert [line["split"] for line in lines] == ["nonoverlapping-balanced", "overlapping-balanced"]
    assert [line["as published: RAND"] for line in lines] == ["1.0", ""]
    assert [line["not finished"] for line in lines] == ["s1: 1 of 2 rounds", "s0: 1 of 2 rounds"]


def test_fairness_has_the_worst_client_jains_index_the_gap_in_loss_and_the_sizes_of_the_last_clusters():
    """Means over rounds (0.1 + 0.3) / 2, (0.5 + 0.9) / 2 and (2 + 4) / 2; at the end five clients and one."""
    curves = {"worst_client_accuracy": (0.1, 0.3), "jain_index": (0.5, 0.9), "learning_gap_loss": (2, 4)}
    curves["worst_tenth_accuracy"] = (0.2, 0.4)
    uneven = make_result(make_run("sattler"), [(0,) * 6, (0, 0, 0, 0, 0, 1)], curves=curves)
    table = build_fairness_table(make_study([uneven, make_result(make_run("fedavg"), ONE)]))
    assert table.name == "fairness-mnist"
    assert [f"{column.group}: {column.name}" for column in table.columns] == [
        *(f"mean over rounds: {name}" for name in ("worst tenth", "worst client", "Jain", "gap in loss")),
        *(f"last round: {name}" for name in ("worst tenth", "worst client", "Jain", "gap in loss")),
        *(f"last partition: {name}" for name in ("clusters", "smallest", "clients alone")),
    ]
    assert read_texts(table) == {
        "sattler": [
            "0.300",
            "0.200",
            "0.700",
            "3.000",
            "0.400",
            "0.300",
            "0.900",
            "4.000",
            "2.0",
            "1.0",
            "1.0",
        ],
        "fedavg": [NONE] * 8 + ["1.0", "6.0", "0.0"],
    }
