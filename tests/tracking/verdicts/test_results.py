"""All methods side by side: pairs over blocks, families, the figures' content, sentences and tables."""

from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest

from fedgrid.tracking import figures as drawn
from fedgrid.tracking.report.page import Plate
from fedgrid.tracking.tables.table import Table
from fedgrid.tracking.verdicts import figures
from fedgrid.tracking.verdicts.field import (
    CLUSTERING,
    SERVING,
    Standing,
    by_family,
    families_of,
    field_of,
    group_by_method,
)
from fedgrid.tracking.verdicts.figures import ILL, MIDDLE, WELL, front
from fedgrid.tracking.verdicts.page import results, section_text
from tests.tracking.verdicts.test_verdict import SOME

SEEDS = range(1000, 1010)
FAMILIES = {"rotated": True, "iid": False}


def of(method, title, accuracy, *, clusters=1.0, right=0.0, megabytes=10.0, families=FAMILIES, **more):
    """Return a method's outcomes, as served and fine-tuned (0.1 more accurate), a block a family and seed."""
    return [
        replace(
            SOME,
            method=method,
            title=title,
            protocol=protocol,
            family=family,
            has_groups=has_groups,
            seed=seed,
            ari=right if has_groups else float(clusters == 1),
            exactly_right=right if has_groups else nan,
            clusters=clusters,
            personalised_accuracy=accuracy + 0.001 * (seed % 3) + (0.1 if protocol == "fine-tuned" else 0.0),
            megabytes=megabytes,
            **more,
        )
        for protocol in ("served", "fine-tuned")
        for family, has_groups in families.items()
        for seed in SEEDS
    ]


def arena():
    """fedavg, a method that finds the groups and serves better, one that cuts up at random, and oracle."""
    return [
        *of("fedavg", "fedavg", 0.6),
        *of("good", "GOOD", 0.7, clusters=4.0, right=1.0, megabytes=20.0),
        *of("bad", "BAD", 0.5, clusters=3.0, megabytes=30.0),
        *of("oracle", "oracle", 0.75, clusters=4.0, right=1.0, is_reference=True, settings="default"),
    ]


def test_pairs_are_corrected_for_all_of_them_and_the_winner_is_the_one_with_the_higher_scores():
    """Ten differences of one sign have p = 2 / 2^10; times three pairs 0.0059. Equal methods have p = 1."""
    field = field_of(
        [*of("low", "L", 0.5), *of("high", "H", 0.7), *of("twin", "T", 0.5)], SERVING, "tuned", "served"
    )
    assert field.better == {"high": {"low", "twin"}, "low": set(), "twin": set()}
    assert field.worse("low") == {"high"}
    assert field.comparison.cliques == (("low", "twin"),)


def test_block_that_a_competitor_lacks_is_left_out_for_all():
    outcomes = [each for each in arena() if not (each.method == "bad" and each.seed == 1000)]
    field = field_of(outcomes, SERVING, "tuned", "served")
    assert field.comparison.num_scenarios == 18
    assert {standing.num_blocks for standing in field.standings.values()} == {18}


def test_question_that_no_two_methods_share_has_no_field():
    outcomes = [each for each in arena() if each.method != "bad"]
    assert field_of(outcomes, CLUSTERING, "tuned", "served") is None
    assert field_of(outcomes, SERVING, "tuned", "served") is not None


def test_family_has_regret_gain_and_the_seeds_below_bnc():
    served = [each for each in arena() if each.protocol == "served"]
    found = by_family(group_by_method(served))
    good, bad = (found[method]["rotated"] for method in ("good", "bad"))
    assert (good.regret, good.gain) == (pytest.approx(0.05), pytest.approx(0.1))
    assert (good.below_bnc, good.right, good.seeds) == (0, 10, 10)
    assert (bad.below_bnc, bad.right) == (10, 0)
    # Without groups one cluster is right.
    assert found["good"]["iid"].right == 0
    assert found["fedavg"]["iid"].right == 10
    assert isnan(by_family({"good": group_by_method(served)["good"]})["good"]["iid"].regret)


def test_families_with_groups_come_first():
    outcomes = [*arena(), replace(SOME, family="dirichlet", has_groups=False)]
    assert families_of(outcomes) == ["rotated", "dirichlet", "iid"]
    assert families_of(outcomes, of_groups=True) == ["rotated", "iid"]


def point(megabytes, accuracy, is_reference=False):
    return Standing(is_reference, accuracy, nan, 1, megabytes, nan)


def test_front_has_the_methods_that_no_competitor_beats_in_both():
    points = {
        "cheap": point(1, 0.5),
        "best": point(9, 0.9),
        "beaten": point(10, 0.9),
        "oracle": point(0.5, 0.99, is_reference=True),
        "twin": point(9, 0.9),
    }
    assert front(points) == ["cheap", "best", "twin"]


def plates():
    return {
        item.name: item for each in results(arena(), 45) for item in each.items if isinstance(item, Plate)
    }


def test_map_of_failures_is_white_where_all_is_well_and_dark_where_bnc_serves_better():
    figure = plates()["failures"].draw()
    groups, served, tuned = figure.axes
    rows = [label.get_text() for label in groups.get_yticklabels()]
    assert rows == ["good", "fedavg", "bad"]
    assert [label.get_text() for label in served.get_xticklabels()] == ["rotated", "iid"]
    colours = {name: tuple(np.round(drawn_rgb(name), 3)) for name in (WELL, MIDDLE, ILL)}
    picture = np.round(groups.images[0].get_array(), 3)
    assert [tuple(cell) for cell in picture[0]] == [colours[WELL], colours[ILL]]
    served_picture = np.round(served.images[0].get_array(), 3)
    assert [tuple(row[0]) for row in served_picture] == [colours[MIDDLE], colours[MIDDLE], colours[ILL]]
    assert [text.get_text() for text in served.texts] == ["", "", "", "", "10", "10"]
    assert len(tuned.images) == 1


def drawn_rgb(colour):
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def test_pareto_joins_the_front_and_names_every_method():
    figure = plates()["pareto"].draw()
    assert [axes.get_title() for axes in figure.axes] == [
        "models as served",
        "45 steps of fine-tuning for all",
    ]
    line = figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [10.0, 20.0]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["bad", "fedavg", "good", "oracle"]


def test_reference_that_sends_nothing_is_a_line():
    figure = figures.pareto({"served": {"solo": point(0.0, 0.4, is_reference=True), "A": point(5, 0.5)}})
    [line] = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert set(line.get_ydata()) == {0.4}


def test_every_figure_can_be_saved(tmp_path):
    for name, plate in plates().items():
        drawn.save(plate.draw(), tmp_path / f"{name}.svg")
    assert {path.stem for path in tmp_path.iterdir()} == {
        "ranks-clustering",
        "ranks-serving-served",
        "ranks-serving-fine-tuned",
        "pareto",
        "failures",
    }


def test_tables_have_ranks_tests_regret_and_defaults():
    worse = [
        replace(each, settings="default", personalised_accuracy=each.personalised_accuracy - 0.05)
        for each in arena()
        if not each.is_reference
    ]
    sections = results([*arena(), *worse], 45)
    tables = {item.name: item for each in sections for item in each.items if isinstance(item, Table)}
    serving = {row.name: [cell.text for cell in row.cells] for row in tables["serving-served"].rows}
    assert serving["good"][:2] == ["1.0", "0.701"]
    assert serving["good"][-3:] == ["2", "0", "better"]
    assert serving["oracle"][0] == "–"
    assert serving["fedavg"][-1] == "–"
    regret = {row.name: row.cells for row in tables["regret-served"].rows}
    assert [cell.text for cell in regret["bad"]] == ["25.0", "25.0"]
    assert regret["bad"][0].notes
    assert not regret["good"][0].notes
    defaults = {row.name: [cell.text for cell in row.cells] for row in tables["defaults"].rows}
    assert defaults["good"][2:4] == ["0.651", "0.701"]


def test_section_in_markdown_links_its_figures():
    [section, *_] = results(arena(), 45)
    text = section_text(section, "arena/{}.png")
    assert text.startswith("## Clustering")
    assert "![Mean ranks by ARI](arena/ranks-clustering.png)" in text
    assert "| good " in text


def test_arena_of_one_method_has_no_results():
    assert results(of("one", "ONE", 0.7), 45) == ()
