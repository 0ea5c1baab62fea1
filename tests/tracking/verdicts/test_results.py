"""All methods side by side: pairs over blocks, families, the figures' content, sentences and tables."""

from dataclasses import replace
from functools import partial
from math import isnan, nan

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fedgrid.tracking.report.page import CaptionedFigure
from fedgrid.tracking.tables.table import Table
from fedgrid.tracking.verdicts import figures
from fedgrid.tracking.verdicts.families import (
    compute_accuracy_within_budget,
    compute_harm,
    summarise_families,
)
from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING, SOLO, build_field, rank_without_datasets
from fedgrid.tracking.verdicts.figures import ILL, MIDDLE, UNKNOWN, WELL, Point, find_pareto_front
from fedgrid.tracking.verdicts.page import build_sections, format_latex
from fedgrid.tracking.verdicts.tables import build_methods_table
from fedgrid.tracking.verdicts.verdict import reach_verdict, run_planned_tests
from tests.helpers.studies import read_texts
from tests.tracking.verdicts.test_verdict import SOME

FAMILIES = {f"family {number}": True for number in range(8)} | {"iid": False, "dirichlet": False}
SEEDS = (1000, 1001)


def of(method, title, accuracy, *, clusters=1.0, right=0.0, megabytes=10.0, families=FAMILIES, **more):
    """Return a method's outcomes, as served and fine-tuned (0.1 more accurate), two seeds a family."""
    return [
        replace(
            SOME,
            method=method,
            title=title,
            protocol=protocol,
            family=family,
            has_groups=has_groups,
            seed=seed,
            ari=right if has_groups else nan,
            exactly_right=right if has_groups else nan,
            clusters=clusters,
            personalised_accuracy=accuracy + 0.001 * place + (0.1 if protocol == "fine-tuned" else 0.0),
            megabytes=megabytes,
            **more,
        )
        for protocol in ("served", "fine-tuned")
        for place, (family, has_groups) in enumerate(families.items())
        for seed in SEEDS
    ]


def arena():
    """fedavg, a method that finds the groups and serves better, one that splits wrongly, and references."""
    return [
        *of("fedavg", "fedavg", 0.6),
        *of("good", "GOOD", 0.7, clusters=4.0, right=1.0, megabytes=20.0),
        *of("bad", "BAD", 0.5, clusters=3.0, megabytes=30.0),
        *of("oracle", "oracle", 0.75, clusters=4.0, right=1.0, is_reference=True, settings="default"),
        *of("solo", "solo", 0.65, clusters=20.0, megabytes=0.0, is_reference=True, settings="default"),
    ]


def test_method_is_tested_against_each_rival_and_own_method_also_with_all_others_against_fedavg():
    """Ten differences of one sign have p = 2 / 2^10, times two comparisons of the planned ones. Equal methods
    have p = 1."""
    outcomes = [*of("low", "L", 0.5), *of("high", "H", 0.7), *of("fedavg", "F", 0.5)]
    field = build_field(outcomes, SERVING, "served")
    tests = run_planned_tests(field, "high")
    assert set(tests) == {("high", "low"), ("low", "high"), ("high", "fedavg"), ("fedavg", "high")}
    assert tests["high", "low"] == (pytest.approx(4 / 2**10), "better")
    assert tests["fedavg", "high"].verdict == "worse"
    mine = [replace(one, method="evident-groups") if one.method == "high" else one for one in outcomes]
    tests = run_planned_tests(build_field(mine, SERVING, "served"), "evident-groups")
    assert len(tests) == 6
    assert tests["low", "fedavg"] == (1, "not shown")
    assert tests["evident-groups", "low"] == (pytest.approx(6 / 2**10), "better")
    assert run_planned_tests(field, "absent") == {}


def test_variants_of_a_kind_are_one_and_drift_is_one_run_with_its_start():
    """Accuracies rise by 0.001 a family: iid 0.5 and 0.501; rotated-equal and -drift 0.502 and 0.503, which
    count as one beside rotated-unequal, 0.504; mnist1d-iid is a kind of its own."""
    names = ("iid", "iid-unequal-clients", "rotated-equal", "rotated-drift", "rotated-unequal", "mnist1d-iid")
    families = dict.fromkeys(names, False)
    outcomes = [*of("low", "L", 0.5, families=families), *of("high", "H", 0.6, families=families)]
    field = build_field(outcomes, SERVING, "served")
    assert field.kinds == [("digits", "iid"), ("digits", "mnist1d-iid"), ("digits", "rotated")]
    assert field.average_kinds("low") == pytest.approx([0.5005, 0.505, 0.50325])
    assert "6 families of 3 kinds" in field.scope


def test_block_that_a_competitor_lacks_is_left_out_for_all():
    """A seed, and a family: a reference that lacks one says so."""
    lacking = {
        ("bad", "iid", 1000),
        ("bad", "iid", 1001),
        ("bad", "family 0", 1000),
        ("oracle", "family 1", 1000),
    }
    lacking.add(("oracle", "family 1", 1001))
    outcomes = [each for each in arena() if (each.method, each.family, each.seed) not in lacking]
    field = build_field(outcomes, SERVING, "served")
    assert len(field.blocks) == 9
    assert field.scores["good"]["digits", "family 0"] == pytest.approx(0.7)
    assert [len(field.outcomes[name]) for name in ("good", "solo", "oracle")] == [17, 17, 15]
    assert field.format_label("oracle") == "oracle (8 of 9 families)"


def test_method_without_results_of_a_data_set_that_most_have_stands_beside_the_others():
    """Of a data set that one of three methods has, the other two need no result."""
    numbers = partial(of, families={"mnist1d-iid": False}, dataset="mnist1d")
    outcomes = [
        *arena(),
        *of("images", "I", 0.8),
        *(one for name in ("fedavg", "good", "bad") for one in numbers(name, name, 0.5)),
    ]
    field = build_field(outcomes, SERVING, "served")
    assert set(field.ranks) == {"fedavg", "good", "bad"}
    assert len(field.blocks) == 11
    assert field.format_label("images") == "images (10 of 11 families)"
    assert field.labels["mnist1d", "mnist1d-iid"] == "mnist1d-iid"
    of_images = reach_verdict(outcomes, "images", SERVING, "served")
    assert {dataset for dataset, _ in of_images.field.blocks} == {"digits"}
    assert len(of_images.against) == 3
    few = [one for one in outcomes if one.dataset == "digits" or one.method == "good"]
    assert set(build_field(few, SERVING, "served").ranks) == {"fedavg", "good", "bad", "images"}


def test_question_that_no_two_methods_share_has_no_field():
    outcomes = [each for each in arena() if each.method != "bad"]
    assert build_field(outcomes, CLUSTERING, "served") is None
    assert build_field(outcomes, SERVING, "served") is not None


def test_family_has_groups_found_and_accuracy_above_the_baselines():
    field = build_field(arena(), CLUSTERING, "served")
    good, bad = (summarise_families(field, method) for method in ("good", "bad"))
    assert good["digits", "family 0"].above_baseline == pytest.approx(
        {"fedavg": 0.1, "solo": 0.05, "FedAvg-FT": 0}
    )
    assert [places["digits", "family 0"].exactly_right for places in (good, bad)] == [2, 0]
    # Without groups one cluster is right.
    assert good["digits", "iid"].exactly_right == 0


def test_false_splits_have_an_exact_interval_over_runs_and_the_number_of_families():
    """Of 0 in 4 the upper bound is 1 - 0.025^(1/4) = 0.602; of 4 in 4 the lower one is the rest."""
    rotated = {name: True for name, has_groups in FAMILIES.items() if has_groups}
    whole = of("whole", "W", 0.6, families=rotated, clusters=2.0, right=1.0)
    whole += of("whole", "W", 0.6, families={"iid": False, "dirichlet": False})
    without = of("none", "N", 0.6, families=rotated, clusters=2.0, right=1.0)
    columns, rows = _overall([*arena(), *whole, *without])
    places = [columns.index(name) for name in ("false splits", "95 %", "in families")]
    splits = {name: [cells[place] for place in places] for name, cells in rows.items()}
    assert splits["good"] == ["4/4", "40–100 %", "2/2"]
    assert splits["whole"] == ["0/4", "0–60 %", "0/2"]
    assert splits["none"] == ["–"] * 3


def _overall(outcomes):
    table = build_methods_table([build_field(outcomes, CLUSTERING, "served")], "name", "title", ["good"])
    rows = read_texts(table)
    return [column.name for column in table.columns], rows


def test_harm_is_the_share_of_clients_that_are_worse_off_than_alone():
    """Of three clients with both accuracies one is worse off; a client without a test counts for neither."""
    outcomes = [
        *of("good", "G", 0.7, clients=(0.9, 0.5, nan, 0.7)),
        *of("bad", "B", 0.5, clients=(nan,) * 4),
        *of("solo", "S", 0.6, clients=(0.8, 0.6, 0.9, 0.7), is_reference=True),
    ]
    field = build_field(outcomes, SERVING, "served")
    assert set(compute_harm(field, "good", SOLO).values()) == {1 / 3}
    assert compute_harm(field, "bad", SOLO) == {}
    assert compute_harm(field, "good", "FedAvg-FT") == {}


def test_accuracy_within_a_budget_is_that_of_the_last_test_within_it():
    """fedavg sends 8 MB in 8 rounds; the other twice as much a round."""
    outcomes = [
        *of("fedavg", "F", 0.7, tested=((2, 0.2, 2.0), (4, 0.4, 4.0), (8, 0.8, 8.0))),
        *of("twice", "T", 0.7, tested=((2, 0.3, 4.0), (4, 0.5, 8.0), (8, 0.9, 16.0))),
    ]
    field = build_field(outcomes, SERVING, "served")
    by_bytes, by_rounds = (
        [
            compute_accuracy_within_budget(field, "twice", share, counts_rounds=of_rounds)
            for share in (0.25, 0.5, 1.0)
        ]
        for of_rounds in (False, True)
    )
    assert isnan(by_bytes[0])
    assert by_bytes[1:] == pytest.approx([0.3, 0.5])
    assert by_rounds == pytest.approx([0.3, 0.5, 0.9])


def test_clients_of_a_run_that_diverged_are_all_harmed_and_have_no_accuracy_in_any_budget():
    outcomes = [
        *of("fedavg", "F", 0.7),
        *of("lost", "L", 0.0, tested=(), clients=()),
        *of("solo", "S", 0.6, is_reference=True),
    ]
    field = build_field(outcomes, SERVING, "served")
    assert set(compute_harm(field, "lost", SOLO).values()) == {1.0}
    assert compute_accuracy_within_budget(field, "lost", 0.5, counts_rounds=False) == 0


def test_ranks_without_a_data_set_are_those_of_the_others():
    """On digits `one` is better, on two families of images `other`."""
    outcomes = [
        *of("one", "A", 0.7, families={"rotated": True}, dataset="digits"),
        *of("one", "A", 0.5, families={"rotated": True, "iid": False}, dataset="images"),
        *of("other", "B", 0.6, families={"rotated": True}, dataset="digits"),
        *of("other", "B", 0.6, families={"rotated": True, "iid": False}, dataset="images"),
    ]
    field = build_field(outcomes, SERVING, "served")
    assert field.ranks == pytest.approx({"other": 4 / 3, "one": 5 / 3})
    assert rank_without_datasets(field) == {
        "digits": {"other": 1, "one": 2},
        "images": {"other": 2, "one": 1},
    }
    [*_, section] = build_sections(outcomes, 45)
    assert [row.name for row in section.items[0].rows] == ["other", "one"]
    assert "data-sets" not in {section.name for section in build_sections(arena(), 45)}


def point(megabytes, accuracy, is_reference=False):
    return Point(accuracy, megabytes, is_reference)


def test_front_has_the_methods_that_no_competitor_beats_in_both():
    points = {
        "cheap": point(1, 0.5),
        "best": point(9, 0.9),
        "beaten": point(10, 0.9),
        "oracle": point(0.5, 0.99, is_reference=True),
        "twin": point(9, 0.9),
    }
    assert find_pareto_front(points) == ["cheap", "best", "twin"]


def plates(outcomes=None):
    sections = build_sections(outcomes or arena(), 45, ["good"])
    return {item.name: item for each in sections for item in each.items if isinstance(item, CaptionedFigure)}


def test_map_of_failures_is_dark_where_groups_are_missed_or_fedavg_serves_better():
    [axes] = plates()["failures-clustering"].draw().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good", "bad", "oracle", "solo"]
    assert [label.get_text() for label in axes.get_xticklabels()][-3:] == ["family 7", "dirichlet", "iid"]
    assert colours_in(axes)[:2] == [[WELL] * 8 + [ILL] * 2, [ILL] * 10]
    [axes] = plates()["failures-serving-served"].draw().axes
    assert [row[0] for row in colours_in(axes)] == [WELL, MIDDLE, ILL, WELL, WELL]
    assert [text.get_text() for text in axes.texts][::10] == ["+10", "0", "-10", "+15", "+5"]


def test_map_without_a_baseline_is_grey():
    alone = [each for each in arena() if each.method not in ("solo", "oracle")]
    [axes] = plates(alone)["failures-serving-served"].draw().axes
    assert {colour for row in colours_in(axes) for colour in row} == {UNKNOWN}


def colours_in(axes):
    """Return the colours of a map by name."""
    names = {tuple(np.round(to_rgb(name), 3)): name for name in (WELL, MIDDLE, ILL, UNKNOWN)}
    return [[names[tuple(cell)] for cell in row] for row in np.round(axes.images[0].get_array(), 3)]


def test_pareto_joins_the_front_and_names_every_method():
    figure = plates()["pareto"].draw()
    assert [axes.get_title() for axes in figure.axes] == [
        "models as served",
        "45 steps of fine-tuning for all",
    ]
    line = figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [10.0, 20.0]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["bad", "fedavg", "good", "oracle", "solo"]


def test_reference_that_sends_nothing_is_a_line():
    figure = figures.draw_pareto({"served": {"solo": point(0.0, 0.4, is_reference=True), "A": point(5, 0.5)}})
    [line] = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert set(line.get_ydata()) == {0.4}


def test_tables_have_ranks_tests_classes_and_what_is_missing():
    outcomes = [*arena(), *of("ifca", "IFCA", 0.9, told="number"), *of("ward", "W", 0.4, told="number")]
    sections = build_sections(outcomes, 45, ["good"])
    tables = {item.name: item for each in sections for item in each.items if isinstance(item, Table)}
    serving = read_texts(tables["serving-served"])
    assert list(serving) == ["good", "fedavg", "bad", "ifca", "ward", "oracle", "solo"]
    assert serving["good"][0] == "1.0"
    assert [serving[name][-1] for name in ("good", "bad", "ifca")] == ["–", "worse (0.004)", "–"]
    assert serving["ifca"][0] == "1.0"
    assert serving["oracle"][0] == "–"
    clustering = read_texts(tables["clustering"])
    assert clustering["good"] == ["1.0", "1.000", "16/16", "4.0", "4/4", "40–100 %", "2/2", "–"]
    assert r"\label{tab:serving-served}" in format_latex([], sections)


def test_arena_of_one_method_has_no_results():
    assert build_sections(of("one", "ONE", 0.7), 45) == ()
