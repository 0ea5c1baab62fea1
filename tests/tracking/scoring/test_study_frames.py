"""A study as a frame and as HTML."""

from math import isnan

from fedgrid.tracking.tables.table import Cell, Column, Row, Table
from tests.helpers.studies import ONE, WHOLE, result_of, run_of, study_of


def two():
    """One run that is right from the first round on, and one that never clusters."""
    right = result_of(run_of("SCL"), WHOLE, clustered=[1], curves={"ari": (1.0, 1.0)})
    return study_of([right, result_of(run_of("BNC"), ONE, curves={"ari": (0.0, 0.0)})])


def test_frame_has_a_row_a_run_with_its_last_scores():
    frame = two().to_pandas()
    assert frame[["algorithm", "seed", "rounds", "exactly_right", "ari"]].to_numpy().tolist() == [
        ["SCL", 0, 2, True, 1.0],
        ["BNC", 0, 2, False, 0.0],
    ]
    assert frame["clustering_round"][0] == 1
    assert isnan(frame["clustering_round"][1])


def test_frame_by_round_has_a_row_a_round():
    frame = two().to_pandas(by_round=True)
    assert frame[["algorithm", "round", "ari"]].to_numpy().tolist() == [
        ["SCL", 1, 1.0],
        ["SCL", 2, 1.0],
        ["BNC", 1, 0.0],
        ["BNC", 2, 0.0],
    ]


def test_frame_of_a_study_without_results_is_empty():
    nothing = two().only([])
    assert (len(nothing.to_pandas()), len(nothing.to_pandas(by_round=True))) == (0, 0)
    assert "0 of 0 runs finished" in nothing._repr_html_()


def test_html_of_a_study_has_the_columns_in_which_its_runs_differ():
    html = two()._repr_html_()
    assert "2 of 2 runs finished" in html
    assert "<th>algorithm</th>" in html
    assert "<th>dataset</th>" not in html


def test_html_of_a_table_is_escaped():
    table = Table("t", "A & B", "c", (Column("x", "group"),), (Row("<r>", (Cell("1.5"),), "part"),))
    assert table._repr_html_() == (
        "<p><b>A &amp; B</b>. c</p><table><tr><th></th><th>group: x</th></tr>"
        "<tr><th>part</th><th></th></tr><tr><td>&lt;r&gt;</td><td>1.5</td></tr></table>"
    )
