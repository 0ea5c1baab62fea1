"""Sparklines and cluster maps, drawn by hand."""

import numpy as np

from fedgrid.grids.browse.run_page import draw_cluster_map, draw_sparkline

NAN = float("nan")


def plain(lines):
    return [line.plain for line in lines]


def test_sparkline_goes_from_the_lowest_to_the_highest_bar():
    assert draw_sparkline(np.array([0.0, 1, 2, 3, 4, 5, 6, 7]), 60) == "▁▂▃▄▅▆▇█"
    assert draw_sparkline(np.array([7.0, NAN, 0]), 60) == "█ ▁"


def test_sparkline_of_equal_values_is_flat_and_of_none_empty():
    assert draw_sparkline(np.array([0.3, 0.3]), 60) == "▁▁"
    assert draw_sparkline(np.array([NAN, NAN]), 60) == ""


def test_sparkline_joins_neighbours_where_the_terminal_is_narrow():
    """Means 0.5 and 6.5 of pairs; the NaN has no say in the third."""
    assert draw_sparkline(np.array([0.0, 1, 6, 7, NAN, 0.5]), 3) == "▁█▁"


def test_map_has_a_line_a_client_by_hidden_group_and_a_block_a_round():
    labels_RK = np.array([[0, 0, 0], [0, 1, 0]])
    lines = plain(draw_cluster_map(labels_RK, np.array([0, 1, 0]), np.array([1, 2]), 80, {}))
    assert lines == [
        "group client  rounds 1 to 2",
        "    0      0  0000",
        "           2  0000",
        "    1      1  0011",
    ]
    named = plain(
        draw_cluster_map(labels_RK, np.array([0, 1, 0]), np.array([1, 2]), 80, {0: "ada", 1: "cartoon"})
    )
    assert named[1:] == ["    ada      0  0000", "             2  0000", "cartoon      1  0011"]


def test_map_of_more_rounds_than_columns_keeps_the_last_round():
    labels_RK = np.repeat(np.arange(30)[:, None], 2, axis=1)
    lines = plain(draw_cluster_map(labels_RK, np.array([0, 0]), np.arange(1, 31), 17, {}))
    assert lines[1][-1] == "t"


def test_map_of_many_clients_shows_the_last_round_a_line_a_hidden_group():
    truth_K = np.repeat([0, 1], 30)
    labels_RK = np.stack([np.zeros(60, int), np.where(np.arange(60) < 29, 0, 1)])
    lines = plain(draw_cluster_map(labels_RK, truth_K, np.array([1, 2]), 80, {}))
    assert lines[1:] == ["    0  " + "0" * 29 + "1", "    1  " + "1" * 30]
