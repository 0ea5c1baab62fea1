"""The published numbers, and our cells beside them."""

import pytest

from fedgrid.tracking.papers.ocfl import numbers
from fedgrid.tracking.papers.ocfl.tables import build_published_tables
from fedgrid.tracking.tables.table import FAR_NOTE, NONE, Cell
from tests.helpers.reference import OVERLAPS, REFERENCE, read_rows
from tests.helpers.studies import ONE, TRUTH_K, WHOLE, make_result, make_run, make_study


def test_the_clustering_numbers_are_those_of_the_reference():
    rows = read_rows(REFERENCE / "published_clustering.csv")
    assert len(rows) == len(numbers.read_clustering()) == 280
    for row in rows:
        scenario = (row["dataset"].lower(), int(row["n"]), f"{OVERLAPS[row['overlap']]}-{row['balance']}")
        known = numbers.read_clustering()[scenario, row["algorithm"]]
        assert [known.published_rand, known.published_ami, known.published_com, known.published_round] == [
            float(row[f"{name}_published"]) for name in ("RAND", "AMI", "COM", "round")
        ]


def test_the_published_personalisation_has_35_rows_with_these_known_values():
    """The OCFL journal paper's tables of personalisation, recomputed from the authors' archive."""
    known = numbers.read_personalisation()
    assert len(known) == 35
    assert known["mnist", "OCFL-HDB"]["pf1_last"] == 0.974
    assert known["mnist", "BNC"]["gap_mean"] == 0.339
    assert known["cifar10", "BCL"] == {
        **{"pf1_mean": 0.643, "pf1_last": 0.770, "gf1_mean": 0.205, "gf1_last": 0.212, "pa_mean": 0.756},
        **{"pa_last": 0.834, "pba_last": 0.762, "ga_last": 0.321, "gap_mean": 0.452},
    }


def test_published_scores_are_rounded_to_five_digits_and_then_to_four():
    assert numbers.round_as_published(0.50985475) == 0.5098
    assert numbers.round_as_published(0.0) == 0.0


def run_for(rounds_whole: int, rounds: int = 50) -> list[tuple[int, ...]]:
    """Labels of a run that is right in its last rounds."""
    return [(0,) * 6] * (rounds - rounds_whole) + [TRUTH_K] * rounds_whole


def cell_of(table, algorithm: str, column: int) -> Cell:
    return next(row for row in table.rows if row.name == algorithm).cells[column]


def test_a_data_set_without_published_numbers_has_no_table_beside_them():
    assert build_published_tables(make_study([make_result(make_run(dataset="digits"), ONE)])) == ()
    assert build_published_tables(make_study([make_result(make_run("LADD"), ONE)])) == ()
    assert build_published_tables(make_study([make_result(make_run(clients=60), ONE)])) == ()


@pytest.mark.parametrize(
    ("rounds_whole", "text", "tone", "is_far"),
    [
        (48, "0.96 / 0.96", "", False),
        (49, "0.98 / 0.96", "better", False),
        (44, "0.88 / 0.96", "worse", False),
        (42, "0.84 / 0.96", "worse", True),
        (0, "– / 0.96", "worse", True),
    ],
)
def test_a_score_is_better_worse_or_far_from_the_published_one(rounds_whole, text, tone, is_far):
    """Published for OCFL-KM on mnist 15 nonoverlapping-balanced: 0.96, right from round 3 on."""
    study = make_study([make_result(make_run("OCFL-KM"), run_for(rounds_whole))])
    table = build_published_tables(study)[0]
    cell = cell_of(table, "OCFL-KM", 0)
    assert (cell.text, cell.tone, FAR_NOTE in cell.notes) == (text, tone, is_far)
    assert cell.value == pytest.approx(rounds_whole / 50)
    assert cell.reference == 0.96
    assert (FAR_NOTE in table.notes) == is_far


def test_a_dash_beside_a_published_dash_is_equal_and_empty_cells_stay_empty():
    study = make_study(
        [make_result(make_run(), ONE)], [make_run("SCL"), make_run(split="overlapping-balanced")]
    )
    scores, rounds, _ = build_published_tables(study)
    assert cell_of(scores, "BNC", 0).text == cell_of(rounds, "BNC", 0).text == f"{NONE} / {NONE}"
    assert cell_of(scores, "SCL", 0).text == cell_of(rounds, "SCL", 0).text == ""
    assert "2 of 3 runs have no result yet" in scores.caption


def test_rounds_are_neither_better_nor_worse_but_may_be_far():
    """Published: 3 for OCFL-KM, 31 for SCL."""
    runs = [make_result(make_run(name), run_for(48)) for name in ("OCFL-KM", "SCL")]
    table = build_published_tables(make_study(runs))[1]
    near, far = (cell_of(table, name, 0) for name in ("OCFL-KM", "SCL"))
    assert (near.text, near.tone, near.notes) == ("3 / 3", "", ())
    assert (far.text, far.tone, far.notes) == ("3 / 31", "", (FAR_NOTE,))


def notes_of(algorithm: str, dataset: str, table: int = 0, **scenario) -> list[str]:
    """What is noted at the name of an algorithm."""
    study = make_study([make_result(make_run(algorithm, dataset=dataset, **scenario), WHOLE)])
    found = build_published_tables(study)[table]
    return [found.notes[key] for key in found.rows[0].notes]


@pytest.mark.parametrize(
    ("algorithm", "dataset", "words"),
    [
        ("BNC", "cifar10", []),
        ("OCFL-KM", "mnist", []),
        ("OCFL-KM", "cifar10", ["similarity_over"]),
        ("OCFL-KM", "pathmnist", ["similarity_over", "learning rates"]),
        ("OCFL-AFF", "mnist", ["gave distances"]),
        ("OCFL-AFF as published", "mnist", []),
        ("BCL", "mnist", ["merged"]),
        ("BCL", "bloodmnist", ["was alone"]),
        ("BCL as published", "bloodmnist", []),
        ("SCL", "fmnist", ["cooldown"]),
        ("SCL", "cifar10", ["never split"]),
        ("OCFL-HDB", "mnist", ["noise"]),
        ("OCFL-HDB as published", "cifar10", []),
    ],
)
def test_reasons_are_notes_of_the_rows_of_their_algorithms(algorithm, dataset, words):
    """The same in the tables of scores, of rounds and of personalisation."""
    found, rounds, personalised = (notes_of(algorithm, dataset, table) for table in range(3))
    assert found == rounds == personalised
    assert len(found) == len(words)
    for word in words:
        assert any(word in text for text in found)


def test_notes_explain_com_as_homogeneity_and_the_ami_of_hdbscan_as_a_copy():
    study = make_study([make_result(make_run(name), WHOLE) for name in ("OCFL-HDB", "OCFL-KM")])
    table = build_published_tables(study)[0]
    rand, ami, com = ([table.notes[key] for key in column.notes] for column in table.columns)
    assert (rand, ami) == ([], [])
    [reason] = com
    assert "completeness" in reason
    assert "homogeneity" in reason.lower()
    marked = [
        (row.name, column.name)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if any("copy of its RAND" in table.notes[key] for key in cell.notes)
    ]
    assert marked == [("OCFL-HDB", "AMI")]


def test_the_wrongly_scored_scenario_is_marked_where_the_truth_matters():
    scenario = {"dataset": "bloodmnist", "clients": 30}
    runs = [
        make_result(make_run(name, split=f"overlapping-{balance}", **scenario), WHOLE)
        for name in ("BNC", "OCFL-KM")
        for balance in ("balanced", "imbalanced")
    ]
    late = make_run("OCFL-HDB", split="overlapping-imbalanced", **scenario)
    table = build_published_tables(make_study(runs, [late]))[0]
    marked = [
        (row.name, column.group)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if any("10/10/10" in table.notes[key] for key in cell.notes)
    ]
    assert marked == [("OCFL-KM", "overlapping imbalanced")] * 3


def test_reasons_that_apply_to_all_cells_are_in_the_caption():
    captions = [
        table.caption
        for table in build_published_tables(
            make_study([make_result(make_run("BCL", dataset="cifar10"), ONE)])
        )
    ]
    assert all("unseeded initial model" in caption for caption in captions)
    assert ["first 50 rounds" in caption for caption in captions] == [True, False, False]
    assert ["0.027" in caption for caption in captions] == [False, False, True]
    assert "is not published" in build_published_tables(make_study([make_result(make_run(), ONE)]))[0].caption


SPLITS = [
    (n, overlap, balance)
    for n in (15, 30)
    for overlap in OVERLAPS.values()
    for balance in ("balanced", "imbalanced")
]


def personalised(splits) -> Cell:
    """The cell of mean PF1 of OCFL-HDB on mnist, 0.925 in the archive."""
    runs = [
        make_result(
            make_run("OCFL-HDB", clients=n, split=f"{overlap}-{balance}"),
            WHOLE,
            curves={"published_pf1": [0.91, 0.93]},
        )
        for n, overlap, balance in splits
    ]
    return build_published_tables(make_study(runs))[-1].rows[0].cells[0]


def test_published_personalisation_shows_how_many_of_the_eight_scenarios_ours_has():
    whole, part = personalised(SPLITS), personalised(SPLITS[:6])
    assert (whole.text, whole.tone, whole.reference) == ("0.920 / 0.925", "worse", 0.925)
    assert (part.text, part.tone) == ("0.920 (6/8) / 0.925", "partial")


def test_a_mean_over_seeds_is_compared_with_the_one_published_run():
    runs = [make_result(make_run("OCFL-KM", seed=seed), run_for(n)) for seed, n in enumerate((48, 46))]
    cell = build_published_tables(make_study(runs))[0].rows[0].cells[0]
    assert cell.text == "0.94 ± 0.03 / 0.96"
    cell = build_published_tables(make_study(runs, [make_run("OCFL-KM", seed=2)]))[0].rows[0].cells[0]
    assert (cell.text, cell.tone) == ("0.94 ± 0.03 (2/3) / 0.96", "partial")
