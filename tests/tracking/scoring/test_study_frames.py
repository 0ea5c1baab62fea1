"""A study as a frame and as HTML, and lines on its runs."""

from dataclasses import replace
from math import isnan

from fedgrid.tracking.scoring.run import format_early_stops, format_validation_scores
from fedgrid.tracking.tables.table import Cell, Column, Row, Table
from tests.helpers.studies import ONE, WHOLE, make_result, make_run, make_study


def two():
    """One run that is right from the first round on, and one that never clusters."""
    right = make_result(make_run("sattler"), WHOLE, clustered=[1], curves={"ari": (1.0, 1.0)})
    return make_study([right, make_result(make_run("fedavg"), ONE, curves={"ari": (0.0, 0.0)})])


def test_frame_has_a_row_a_run_with_its_last_scores():
    frame = two().to_pandas()
    assert frame[["algorithm", "seed", "rounds", "exactly_right", "ari"]].to_numpy().tolist() == [
        ["sattler", 0, 2, True, 1.0],
        ["fedavg", 0, 2, False, 0.0],
    ]
    assert frame["clustering_round"][0] == 1
    assert isnan(frame["clustering_round"][1])


def test_frame_by_round_has_a_row_a_round():
    frame = two().to_pandas(by_round=True)
    assert frame[["algorithm", "round", "ari"]].to_numpy().tolist() == [
        ["sattler", 1, 1.0],
        ["sattler", 2, 1.0],
        ["fedavg", 1, 0.0],
        ["fedavg", 2, 0.0],
    ]


def test_frame_of_a_study_without_results_is_empty():
    nothing = two().only([])
    assert (len(nothing.to_pandas()), len(nothing.to_pandas(by_round=True))) == (0, 0)
    assert "0 of 0 runs finished" in nothing._repr_html_()


def test_text_of_a_study_is_what_it_is_of_and_mean_scores_by_algorithm():
    runs = [make_run("sattler", seed=seed, split=split) for split in ("iid", "rotated") for seed in (0, 1)]
    results = [make_result(run, WHOLE, curves={"ari": (0.0, 0.5 + run.seed / 2)}) for run in runs]
    text = repr(make_study([*results, make_result(make_run("fedavg"), ONE)], [make_run("fedavg", seed=7)]))
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["Study", "mine:", "5", "of", "6", "runs", "finished"]
    assert ["splits", "nonoverlapping-balanced,", "iid,", "rotated"] in lines
    assert ["algorithms", "sattler,", "fedavg"] in lines
    assert ["mean", "runs", "clusters", "ari"] in lines
    assert ["sattler", "4", "2.000", "0.750"] in lines
    assert "1 of 2 rounds" in text


def test_text_of_a_large_study_fits_a_screen():
    names = [f"briggs (threshold 0.{number}, and another setting of it)" for number in range(30)]
    runs = [make_run(name, seed=seed) for name in names for seed in range(20)]
    lines = repr(make_study([make_result(run, ONE) for run in runs])).splitlines()
    assert max(map(len, lines)) < 80
    assert len(lines) < 24
    assert "20 more algorithms" in lines[-1]


def test_notebook_unfolds_the_runs_below_the_means():
    html = two()._repr_html_()
    assert "2 of 2 runs finished" in html
    means, runs = html.split("<details>")
    assert means.count("sattler") == 2
    assert "<td>mnist</td>" in means
    assert runs.count("<tr") == 3
    assert "<th>algorithm</th>" in runs
    assert "<th>dataset</th>" not in runs, "of columns those in which the runs differ"
    assert "&lt;r&gt;" in make_study([make_result(make_run("<r>"), ONE)])._repr_html_()


def test_html_of_a_table_is_escaped():
    table = Table("t", "A & B", "c", (Column("x", "group"),), (Row("<r>", (Cell("1.5"),), "part"),))
    assert table._repr_html_() == (
        "<p><b>A &amp; B</b>. c</p><table><tr><th></th><th>group: x</th></tr>"
        "<tr><th>part</th><th></th></tr><tr><td>&lt;r&gt;</td><td>1.5</td></tr></table>"
    )


def test_lines_on_runs_count_those_on_validation_images_and_those_that_stopped_early():
    tested, validated = (
        replace(make_run(), values={"split.scored_on": images}) for images in ("test", "validation")
    )
    assert format_validation_scores([tested]) == ""
    assert "1 of 2 runs are on validation images" in format_validation_scores([tested, validated])
    long, short = (replace(make_run(), rounds=rounds, values={"training.rounds": 9}) for rounds in (9, 4))
    assert (long.stopped, short.stopped) == ("", "stopped after round 4 of 9")
    assert (
        format_early_stops([long, short])
        == "Stopped early (training.stop_after): 1 of 2 runs, after round 4."
    )
    assert format_early_stops([long]) == ""
