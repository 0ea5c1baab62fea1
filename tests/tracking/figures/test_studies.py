"""What the figures of a study show: lines, panels and marks, and what they say where there is nothing."""

import hashlib
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fedgrid.tracking import figures
from fedgrid.tracking.figures.curves import KINDS
from fedgrid.tracking.figures.style import choose_styles
from fedgrid.tracking.scoring.cost import Target
from tests.helpers.reference import REFERENCE, read_rows
from tests.helpers.studies import (
    NOT_RECORDED,
    ONE,
    TRUTH_K,
    WHOLE,
    make_finished,
    make_result,
    make_run,
    make_study,
)

NAN = float("nan")
SEVEN = ("fedavg", "sattler", "briggs", "ocfl-kmeans", "ocfl-affinity", "ocfl-meanshift", "ocfl-hdbscan")
ELEVEN = (
    *SEVEN,
    *(f"{name}-as-published" for name in ("sattler", "briggs", "ocfl-affinity", "ocfl-hdbscan")),
)
RECORDED = (
    *("learning_gap", "published_learning_gap", "learning_gap_loss", "personalised_accuracy"),
    *("generalised_accuracy", "worst_client_accuracy", "jain_index"),
)
OF_STUDIES = {
    "segments": figures.segments,
    "segments, right": lambda study: figures.segments(study, published=False),
    "temperatures": figures.temperatures,
    "bands": lambda study: figures.temperature_bands(study, normalised=False),
    "bands, scaled": lambda study: figures.temperature_bands(study, normalised=True),
    "bands, all data sets": partial(figures.temperature_bands, normalised=True, together=True),
    "communities": figures.communities,
    "maps": figures.cluster_maps,
    "cost": figures.cost_to_target,
    **{kind: partial(figures.per_round, kind=kind) for kind in KINDS},
}


def lines(axes):
    """Label -> points of the lines of algorithms."""
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines if line.get_label()[0] != "_"}


def texts(axes):
    return [text.get_text().replace("\n", " ") for text in axes.texts]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_algorithms_have_a_colour_and_a_marker_of_their_own_whatever_else_there_is():
    style = choose_styles(ELEVEN)
    assert len({style[name].colour for name in SEVEN}) == len({style[name].marker for name in SEVEN}) == 7
    assert choose_styles(["mine", "sattler"])["sattler"] == style["sattler"]
    own = choose_styles([f"ocfl-hdbscan (window {number})" for number in range(12)])
    assert len({(each.colour, each.marker) for each in own.values()}) == 12


def test_an_as_published_algorithm_is_drawn_dashed_with_open_markers():
    style = choose_styles(ELEVEN)
    plain, published = style["ocfl-hdbscan"], style["ocfl-hdbscan-as-published"]
    assert (published.colour, published.marker) == (plain.colour, plain.marker)
    assert published.line != plain.line
    assert plain.filled
    assert not published.filled


def test_a_reference_is_drawn_dotted_in_black_and_takes_no_colour_from_others():
    style = choose_styles(["oracle", "solo", "mine", "fedavg"])
    assert style["oracle"].colour == style["solo"].colour == "#000000"
    assert style["oracle"].marker != style["solo"].marker
    assert style["oracle"].line == style["solo"].line != style["fedavg"].line
    assert style["mine"] == choose_styles(["mine"])["mine"]


def test_a_segment_reaches_from_gf1_to_pf1_in_the_panel_of_its_split_and_clients():
    """Two rounds, two seeds: GF1 (0.1 + 0.3 + 0.2 + 0.2) / 4 = 0.2, PF1 (0.6 + 0.8 + 0.4 + 0.6) / 4 = 0.6."""
    cell = {"clients": 30, "split": "overlapping-balanced"}
    one = make_finished(curves={"published_gf1": (0.1, 0.3), "published_pf1": (0.6, 0.8)}, **cell)
    two = make_finished(curves={"published_gf1": (0.2, 0.2), "published_pf1": (0.4, 0.6)}, **cell, seed=1)
    other = make_finished("sattler", curves={"published_gf1": (0.5, 0.5), "published_pf1": (0.9, 0.9)})
    figure = figures.segments(make_study([one, two, other]))
    assert [axes.get_title() for axes in figure.axes] == [
        "nonoverlapping\nbalanced",
        "overlapping\nbalanced",
        "",
        "",
    ]
    few, unplanned, unfinished, many = figure.axes
    assert lines(many) == {"fedavg": [pytest.approx([0.2, 0]), pytest.approx([0.6, 0])]}
    [bar] = many.collections[-1].get_segments()
    assert bar.tolist() == [pytest.approx([0.5, 0]), pytest.approx([0.7, 0])], "the range of the seeds' PF1"
    assert lines(few) == {"sattler": [[0.5, 1], [0.9, 1]]}
    assert texts(unplanned)[0] == texts(unfinished)[0] == "no run is finished"
    assert texts(many) == ["30 clients"]
    assert [label.get_text() for label in few.get_yticklabels()] == ["fedavg", "sattler"]
    assert many.get_xlim()[0] < 0
    assert many.get_xlim()[1] > 1
    assert legend(figure) == ["GF1 (generalisation)", "PF1 (personalisation)"]


def test_number_of_an_algorithms_own_is_drawn_of_the_runs_that_have_it_and_named_if_misspelt():
    both = make_study([make_finished("mine", curves={"focal_loss": (1.5, 0.5)}), make_finished("fedavg")])
    [axes] = figures.per_round(both, "focal_loss").axes
    assert lines(axes) == {"mine": [[1, 1.5], [2, 0.5]]}
    assert axes.get_ylabel() == "focal loss"
    with pytest.raises(ValueError, match="focal_los.*did you mean 'focal_loss'"):
        figures.per_round(both, "focal_los")


def test_a_temperature_line_ends_with_its_last_value_and_marks_the_clustering_round():
    known = {"temperature": (0.4, NAN)}
    early = make_finished("ocfl-kmeans", WHOLE, clustered=[1], curves=known)
    late = make_finished("fedavg", curves={"temperature": (0.4, 0.6)})
    [axes] = figures.temperatures(make_study([late, early, make_finished("sattler")])).axes
    assert lines(axes) == {"fedavg": [[1, 0.4], [2, 0.6]], "ocfl-kmeans": [[1, 0.4]]}
    assert [line.get_markevery() for line in axes.lines] == [[], [0]]


def test_the_band_is_of_the_runs_that_never_cluster_one_a_scenario_and_seed():
    """fedavg and sattler of a split are one run; the mean of (0.2, 0.4) and (0.4, 0.8) is (0.3, 0.6)."""
    low, high = {"temperature": (0.2, 0.4)}, {"temperature": (0.4, 0.8)}
    results = [
        make_finished("fedavg", curves=low),
        make_finished("sattler", curves=low),
        make_finished("fedavg", curves=high, split="overlapping-balanced"),
        make_finished("ocfl-kmeans", WHOLE, clustered=[1], curves={"temperature": (9, 9)}),
        make_finished(
            "ocfl-kmeans", [ONE[0], TRUTH_K], curves={"temperature": (9, 9)}, split="overlapping-balanced"
        ),
    ]
    [axes] = figures.temperature_bands(make_study(results), normalised=False).axes
    average, at_mean_round, mark = axes.lines
    assert average.get_xydata().tolist() == [pytest.approx([1, 0.3]), pytest.approx([2, 0.6])]
    assert at_mean_round.get_label() == "ocfl-kmeans"
    assert list(at_mean_round.get_xdata()) == [1.5, 1.5]
    assert list(mark.get_xdata()) == [1.5]
    [band] = axes.patches
    assert band.get_xy()[:2].tolist() == [pytest.approx([1, 0.2]), pytest.approx([2, 0.4])]


def test_a_scaled_temperature_ranges_from_0_to_1_and_a_constant_one_is_0():
    results = [
        make_finished(curves={"temperature": (5e-6, 3e-6)}),
        make_finished(curves={"temperature": (2, 2)}, split="overlapping-balanced"),
    ]
    [axes] = figures.temperature_bands(make_study(results), normalised=True).axes
    assert axes.lines[0].get_xydata().tolist() == [[1, 0.5], [2, 0]]


def test_without_a_run_that_never_clusters_the_band_is_of_ocfl_as_far_as_half_of_the_runs_know_it():
    known = [(0.2, 0.4), (0.4, NAN), (0.6, NAN)]
    results = [
        make_finished("ocfl-kmeans", WHOLE, clustered=[1], curves={"temperature": values}, seed=seed)
        for seed, values in enumerate(known)
    ]
    [axes] = figures.temperature_bands(make_study(results), normalised=False).axes
    assert axes.lines[0].get_xydata().tolist() == [pytest.approx([1, 0.4])]


def test_the_temperature_over_all_data_sets_is_the_mean_of_the_authors_scaled_runs():
    """Each of their 16 runs of MNIST and CIFAR10 scaled to 0..1 with plain Python, then averaged by round."""
    runs: dict[tuple[str, ...], list[float]] = {}
    for row in read_rows(REFERENCE / "published_temperature.csv"):
        runs.setdefault((row["dataset"], row["overlap"], row["balance"], row["n"]), []).append(
            float(row["temperature"])
        )
    scaled = [[(value - min(run)) / (max(run) - min(run)) for value in run] for run in runs.values()]
    assert len(scaled) == 16
    expected = [fmean(values) for values in zip(*scaled, strict=True)]
    results = [
        make_result(
            make_run(dataset=dataset, split=f"{overlap}-{balance}", clients=int(n)),
            [ONE[0]] * len(values),
            curves={"temperature": values},
        )
        for (dataset, overlap, balance, n), values in runs.items()
    ]
    [axes] = OF_STUDIES["bands, all data sets"](make_study(results)).axes
    assert axes.get_title() == "mean of 2 data sets"
    assert lines(axes) == {}
    assert axes.lines[0].get_xdata().tolist() == list(range(1, 51))
    assert axes.lines[0].get_ydata() == pytest.approx(expected)
    assert len(axes.patches) == 1


def test_bands_have_a_panel_a_data_set_or_a_number_of_clients_of_one():
    curves = {"temperature": (0.2, 0.4)}
    few, many = make_finished(curves=curves), make_finished(curves=curves, clients=30)
    other = make_finished(curves=curves, dataset="cifar10")
    by_size = figures.temperature_bands(make_study([few, many]), normalised=False)
    by_dataset = figures.temperature_bands(make_study([few, many, other]), normalised=False)
    assert [axes.get_title() for axes in by_size.axes] == ["mnist, 15 clients", "mnist, 30 clients"]
    assert [axes.get_title() for axes in by_dataset.axes] == ["mnist", "cifar10"]


def test_the_ari_is_a_mean_over_the_seeds_in_a_band_of_their_standard_deviation():
    """0.5, 0.7 and 0.9 have the standard deviation sqrt((0.04 + 0.04) / 2) = 0.2."""
    results = [
        make_finished(curves={"ari": (0, value)}, seed=seed) for seed, value in enumerate((0.5, 0.7, 0.9))
    ]
    figure = OF_STUDIES["ari"](make_study([*results, make_finished("sattler", curves={"ari": (0, 1)})]))
    [axes] = figure.axes
    assert lines(axes) == {"fedavg": [[1, 0], pytest.approx([2, 0.7])], "sattler": [[1, 0], [2, 1]]}
    [band] = axes.patches
    assert band.get_xy()[:3].tolist() == [[1, 0], pytest.approx([2, 0.5]), pytest.approx([2, 0.9])]
    assert legend(figure) == ["fedavg", "sattler"]
    assert axes.get_ylabel() == "adjusted Rand index"


def test_lines_that_coincide_have_their_markers_in_different_rounds():
    labels_RK = [TRUTH_K] * 14
    curves = {"ari": [1.0] * 14}
    results = [make_result(make_run(name), labels_RK, curves=curves) for name in SEVEN]
    [axes] = OF_STUDIES["ari"](make_study(results)).axes
    marked = [round for line in axes.lines for round in line.get_xdata()[slice(*_every(line))]]
    assert sorted(marked) == list(range(1, 15))


def _every(line):
    first, step = line.get_markevery()
    return first, None, step


def test_accuracy_has_a_row_on_the_own_tests_above_one_on_the_servers():
    curves = {"personalised_accuracy": (0.5, 0.8), "generalised_accuracy": (0.4, 0.3)}
    other = make_finished(curves=curves, split="overlapping-balanced")
    figure = OF_STUDIES["accuracy"](make_study([make_finished(curves=curves), other]))
    own, _, server, _ = figure.axes
    assert (lines(own), lines(server)) == ({"fedavg": [[1, 0.5], [2, 0.8]]}, {"fedavg": [[1, 0.4], [2, 0.3]]})
    assert [axes.get_title() for axes in figure.axes] == [
        *("nonoverlapping\nbalanced", "overlapping\nbalanced", "", ""),
    ]
    assert (own.get_ylabel(), server.get_ylabel()) == ("personalised accuracy", "generalised accuracy")
    assert (own.xaxis.get_visible(), server.xaxis.get_visible()) == (False, True)
    assert server.get_xlabel() == "round"


def test_f1_is_over_own_classes_and_as_published_only_if_no_run_has_that():
    right = {"personalised_f1": (0.5, 0.6), "published_pf1": (0.1, 0.2)}
    archived = {"published_pf1": (0.3, 0.4), "published_gf1": (0.2, 0.1)}
    mixed = OF_STUDIES["f1"](
        make_study([make_finished(curves=right), make_finished("sattler", curves=archived)])
    )
    assert [lines(axes) for axes in mixed.axes] == [{"fedavg": [[1, 0.5], [2, 0.6]]}]
    old = OF_STUDIES["f1"](make_study([make_finished(curves=archived)]))
    assert [axes.get_ylabel() for axes in old.axes] == ["PF1, as published", "GF1, as published"]
    assert lines(old.axes[1]) == {"fedavg": [[1, 0.2], [2, 0.1]]}


def test_a_gap_in_loss_ends_above_its_largest_value_and_leaves_out_an_infinite_one():
    results = [
        make_finished(curves={"learning_gap_loss": (2.0, 4.0)}),
        make_finished(
            "sattler", curves={"learning_gap_loss": (1.0, float("inf"))}, split="overlapping-balanced"
        ),
    ]
    one, other = OF_STUDIES["gap-loss"](make_study(results)).axes
    assert (lines(one), lines(other)) == ({"fedavg": [[1, 2], [2, 4]]}, {"sattler": [[1, 1]]})
    assert one.get_ylim()[1] == other.get_ylim()[1] == pytest.approx(1.03 * 4)
    assert one.get_ylabel() == "learning gap (loss, nats)"


def test_the_sizes_of_clusters_have_axes_from_0_to_the_number_of_clients():
    """Round 1: all six together; round 2: one of them alone."""
    run = make_result(make_run(), [ONE[0], (0, 0, 0, 0, 0, 1)])
    smallest, alone = OF_STUDIES["sizes"](make_study([run])).axes
    assert (lines(smallest), lines(alone)) == ({"fedavg": [[1, 6], [2, 1]]}, {"fedavg": [[1, 0], [2, 1]]})
    assert smallest.get_yticks().tolist() == alone.get_yticks().tolist() == [0, 5, 10, 15]


def test_a_seed_that_lacks_a_round_does_not_end_the_mean_or_the_band():
    """Round 2 has 0.2 and 0.4: their deviation is 0.2 / sqrt 2; round 1 has 0.5 alone and no deviation."""
    results = [
        make_finished(curves={"ari": values}, seed=seed)
        for seed, values in enumerate([(NAN, 0.2), (0.5, 0.4)])
    ]
    [axes] = OF_STUDIES["ari"](make_study(results)).axes
    assert lines(axes) == {"fedavg": [[1, 0.5], pytest.approx([2, 0.3])]}
    low = 0.3 - 0.2 / np.sqrt(2)
    assert axes.patches[0].get_xy()[:2].tolist() == [[1, 0.5], pytest.approx([2, low])]


def picture(axes):
    return np.asarray(axes.images[0].get_array())


def test_maps_of_equal_partitions_look_alike_whatever_their_labels():
    renamed = [[2, 2, 2, 0, 0, 0]] * 2
    figure = figures.cluster_maps(
        make_study(
            [make_result(make_run("ocfl-kmeans"), WHOLE), make_result(make_run("ocfl-hdbscan"), renamed)]
        )
    )
    one, other = figure.axes
    assert np.array_equal(picture(one), picture(other))
    assert picture(one).shape == (6, 2, 3)
    assert len({tuple(pixel) for pixel in picture(one)[:, 0]}) == 2
    assert [axes.get_title() for axes in (one, other)] == ["ocfl-kmeans\nARI 1.00", "ocfl-hdbscan\nARI 1.00"]
    assert [label.get_text() for label in one.get_yticklabels()] == ["group 0", "group 1"]


def test_groups_that_the_data_set_names_have_their_names():
    run = replace(make_finished("ocfl-kmeans", WHOLE), group_names={0: "photo", 1: "7"})
    figure = figures.cluster_maps(make_study([run]))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["photo", "group 7"]
    assert legend(figure)[:2] == ["most of it from photo", "most of it from group 7"]


def test_each_client_has_a_curve_in_the_hue_of_its_group_and_the_lowest_is_named():
    """Of six clients, in two groups of three, the fifth ends lowest."""
    accuracy_RK = np.array([[0.1] * 6, [0.5, 0.6, 0.7, 0.8, 0.2, NAN]])
    [axes] = figures.client_curves(
        make_study([replace(make_finished("fedavg"), accuracy_RK=accuracy_RK)])
    ).axes
    assert axes.get_title() == "fedavg\nlowest: client 4, 0.20"
    assert len(axes.lines) == 6
    assert [line.get_xdata().tolist() for line in axes.lines[4:]] == [[1, 2], [1]]
    assert len({line.get_color() for line in axes.lines[:3]}) == 1
    assert axes.lines[0].get_color() != axes.lines[3].get_color()


def test_a_map_shows_a_client_in_a_cluster_of_another_group_and_a_second_cluster_of_its_own():
    """Client 2, of group 0, is with group 1; client 5, of group 1, is alone: the same hue, paler."""
    labels = [[0, 0, 1, 1, 1, 2]] * 2
    [axes] = figures.cluster_maps(make_study([make_finished("ocfl-meanshift", labels)])).axes
    zero, _, wrong, one, _, alone = picture(axes)[:, 0].tolist()
    assert wrong == one != zero
    assert alone not in (zero, one)
    assert all(pale > full for pale, full in zip(alone, one, strict=True))


def test_maps_are_of_the_first_seed_and_say_which_run_is_not_finished():
    results = [make_finished(seed=3), make_finished("sattler", WHOLE, seed=4)]
    figure = figures.cluster_maps(make_study(results, [make_run("sattler", seed=3)]))
    assert [bool(axes.images) for axes in figure.axes] == [True, False]
    assert texts(figure.axes[1]) == ["no run is finished"]


def test_the_cost_is_the_first_round_and_the_bytes_at_95_percent_of_the_scenarios_best():
    """The best last score is sattler's mean over the seeds, 0.8: fedavg's 0.7 is below 0.76, 0.8 is not."""
    results = [
        make_finished(curves={"personalised_f1": (0.1, 0.7), "bytes": (1e6, 2e6)}),
        make_finished("sattler", curves={"personalised_f1": (0.8, 0.8), "bytes": (3e6, 6e6)}),
        make_finished("sattler", curves={"personalised_f1": (0.1, 0.8), "bytes": (3e6, 6e6)}, seed=1),
    ]
    figure = figures.cost_to_target(make_study(results))
    rounds, megabytes = figure.axes
    assert [x for x, _ in lines(rounds)["sattler"]] == [1, 2]
    assert [x for x, _ in lines(megabytes)["sattler"]] == [3, 6]
    assert lines(rounds)["fedavg"] == []
    assert texts(rounds) == texts(megabytes) == ["never: 1", ""]
    assert [axes.get_xlabel() for axes in figure.axes] == ["rounds", "sent up and down, MB"]
    assert figure.texts[0].get_text() == (
        "until personalised F1 (own classes)\nreaches 95 % of the scenario's best (bars: medians)"
    )


def test_the_cost_of_the_best_competitor_counts_where_a_reference_is_better_and_another_sends_nothing():
    """sattler's last score is 0.6, so the target is 0.57: solo reaches it in round 2 for no bytes at all."""
    results = [
        make_finished(
            "oracle", curves={"personalised_f1": (0.9, 1.0), "bytes": (1e6, 2e6)}, is_reference=True
        ),
        make_finished("solo", curves={"personalised_f1": (0.1, 0.57), "bytes": (0, 0)}, is_reference=True),
        make_finished("sattler", curves={"personalised_f1": (0.1, 0.6), "bytes": (1e6, 2e6)}),
    ]
    rounds, megabytes = figures.cost_to_target(make_study(results)).axes
    assert {name: [x for x, _ in points] for name, points in lines(rounds).items()} == {
        "sattler": [2],
        "oracle": [1],
        "solo": [2],
    }
    assert [x for x, _ in lines(megabytes)["solo"]] == [0]


def test_the_cost_of_a_given_target_falls_back_to_the_published_f1_and_leaves_unknown_bytes_out():
    both = {"personalised_f1": (0.1, 0.9), "published_pf1": (0.6, 0.7), "bytes": (1e6, 2e6)}
    results = [make_finished(curves=both), make_finished("sattler", curves={"published_pf1": (0.4, 0.5)})]
    figure = figures.cost_to_target(make_study(results), Target("personalised_f1", 0.5))
    [axes] = figure.axes
    assert {name: [x for x, _ in points] for name, points in lines(axes).items()} == {
        "fedavg": [1],
        "sattler": [2],
    }
    assert figure.texts[0].get_text().startswith("until PF1 (union of classes, as published)\nreaches 0.5")


def test_critical_difference_leads_from_ranks_to_names_the_best_first_and_joins_cliques():
    ranks = {"fedavg": 3.0, "ocfl-kmeans": 1.25, "sattler": 1.75, "lost": NAN}
    figure = figures.critical_difference(
        ranks, [["ocfl-kmeans", "sattler"], ["sattler", "fedavg"], ["fedavg"]], 8
    )
    [axes] = figure.axes
    names = [text for text in texts(axes) if text[0].isalpha()]
    assert names == [
        "average rank over 8 scenarios, 1 is best",
        "ocfl-kmeans  1.25",
        "sattler  1.75",
        "fedavg  3.00",
    ]
    axis, *bars = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2]
    place = lambda rank: np.interp(rank, [1, 3], axis)  # noqa: E731
    assert [[np.round(end, 2) for end in bar] for bar in bars] == [
        [np.round(place(1.25) - 0.04, 2), np.round(place(1.75) + 0.04, 2)],
        [np.round(place(1.75) - 0.04, 2), np.round(place(3) + 0.04, 2)],
    ]
    first, second = (line.get_ydata()[0] for line in axes.lines[1:3])
    assert first < second, "bars that meet do not lie on one another"
    best, next_best, worst = (text.get_position() for text in axes.texts[-3:])
    assert best[0] == next_best[0] < place(1) < place(3) < worst[0]
    assert worst[1] == best[1] < next_best[1] < figure.get_figheight()


@pytest.mark.parametrize("ranks", [{}, {"fedavg": NAN}])
def test_critical_difference_without_ranks_says_so(ranks):
    [axes] = figures.critical_difference(ranks, [], 0).axes
    assert texts(axes) == ["no scenario has a result of every algorithm"]


@pytest.mark.parametrize("name", OF_STUDIES)
def test_a_figure_without_a_result_says_so(name):
    for lacking in ([], [make_run("fedavg"), make_run("ocfl-kmeans")]):
        figure = OF_STUDIES[name](make_study([], lacking))
        assert "no run is finished" in [text for axes in figure.axes for text in texts(axes)]


@pytest.mark.parametrize("name", [name for name in OF_STUDIES if name != "maps"])
def test_a_figure_of_what_was_not_recorded_says_so(name):
    figure = OF_STUDIES[name](make_study([make_finished(), make_finished("ocfl-kmeans", WHOLE)]))
    said = [text for axes in figure.axes for text in texts(axes)]
    assert any(text.startswith("no ") and text.endswith("was recorded") for text in said), said


@pytest.mark.parametrize("name", OF_STUDIES)
def test_one_round_of_eleven_algorithms_with_long_names_stays_within_the_figure(name):
    """Every text lies on the figure, and no legend or title lies on the panels."""
    long = "ocfl-hdbscan (clusterer.min_cluster_size 3, clusterer.min_samples 2)"
    curves = dict.fromkeys((*NOT_RECORDED, *RECORDED), (0.5,))
    results = [
        make_result(make_run(algorithm), WHOLE[:1], clustered=[1], curves=curves)
        for algorithm in (*ELEVEN, long)
    ]
    figure = OF_STUDIES[name](make_study(results))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    whole, renderer = figure.bbox, canvas.get_renderer()
    for text in (text for axes in figure.axes for text in _written(axes)):
        box = text.get_window_extent(renderer)
        assert 0 <= box.x0 < box.x1 <= whole.x1, text
        assert 0 <= box.y0 < box.y1 <= whole.y1, text
    for drawn in figure.legends:
        box = drawn.get_window_extent(renderer)
        assert 0 <= box.x0 < box.x1 <= whole.x1
        assert not any(box.overlaps(axes.title.get_window_extent(renderer)) for axes in figure.axes)


def _written(axes):
    ticks = [
        tick.label1
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
        for tick in axis.get_major_ticks()
        if axis.get_visible() and min(limits) <= tick.get_loc() <= max(limits)
    ]
    return [text for text in (*axes.texts, axes.title, *ticks) if text.get_text()]


@pytest.mark.parametrize("name", ["segments", "temperatures", "maps", "ari"])
def test_a_figure_of_one_data_set_refuses_two(name):
    two = make_study([make_finished(), make_finished(dataset="cifar10")])
    with pytest.raises(ValueError, match=r"mnist, cifar10.*study.where\(dataset='mnist'\)"):
        OF_STUDIES[name](two)


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_the_same_study_gives_the_same_bytes_whatever_matplotlib_is_set_to(suffix, tmp_path):
    """One figure of each kind: those of scores by round are drawn by one function; one in all formats."""
    kinds = (
        ("segments", "temperatures", "bands", "accuracy", "maps", "cost") if suffix == "svg" else ("maps",)
    )
    curves = {"temperature": (0.2, 0.4), "personalised_accuracy": (0, 1), "generalised_accuracy": (0.1, 0.2)}
    results = make_study([*(make_finished(name, WHOLE, curves=curves) for name in ("fedavg", "ocfl-kmeans"))])
    path = tmp_path / f"figure.{suffix}"

    def drawn():
        for name in kinds:
            figures.save(OF_STUDIES[name](results), path)
            yield hashlib.sha256(path.read_bytes()).hexdigest()

    first = list(drawn())
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 10, "svg.hashsalt": "mine"}):
        assert list(drawn()) == first


def test_drawing_imports_neither_pyplot_nor_slow_modules():
    code = "import sys; from fedgrid.tracking import figures; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"matplotlib.pyplot", "scipy", "sklearn", "mlflow", "torch"} & set(modules.stdout.split())


def test_the_example_in_the_docs_draws_three_figures(tmp_path, monkeypatch):
    curves = {"learning_gap": (0.1, 0.2), "published_gf1": (0.1, 0.2), "published_pf1": (0.5, 0.6)}
    monkeypatch.setattr(
        "fedgrid.grids.results.study.load", lambda grid, storage: make_study([make_finished(curves=curves)])
    )
    monkeypatch.setattr(sys, "argv", ["figures.py", "tiny", "--out", str(tmp_path / "out")])
    runpy.run_path(str(Path(__file__).parents[3] / "docs" / "figures.py"), run_name="__main__")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "clusters.svg",
        "learning-gap.pdf",
        "segments.pdf",
    ]


def test_communities_stand_beside_the_global_model_on_their_members_images_and_on_the_servers():
    curves = {
        "global_own_accuracy": (0.1, 0.4),
        "personalised_accuracy": (0.2, 0.9),
        "global_accuracy": (0.1, 0.5),
        "generalised_accuracy": (0.2, 0.3),
    }
    of = make_study([make_finished("Louvain", curves=curves)])
    for server, ends in ((False, [0.4, 0.9]), (True, [0.5, 0.3])):
        [axes] = figures.communities(of, server=server).axes
        [whole] = [line for line in axes.lines if line.get_label() == "louvain"]
        assert list(whole.get_xdata()) == ends
