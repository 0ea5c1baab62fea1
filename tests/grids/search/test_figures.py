"""The figures of a search: what is in them, and that they are the same bytes every time."""

from fedgrid.tracking.figures import save
from fedgrid.tracking.figures.search import Axis, FinishedTrial, draw_heat_map, draw_score_curves

FREE, ORACLE = "validation F1", "ARI (oracle)"
SCORES = {FREE: None, ORACLE: (0.0, 1.0)}
X, Y = Axis("epsilon_1", 0.01, 1, log=True), Axis("cooldown", 1, 9, is_integer=True)
TRIED = [
    FinishedTrial({"epsilon_1": 0.01, "cooldown": 1, "linkage": "single"}, {FREE: 0.5, ORACLE: 0.0}),
    FinishedTrial({"epsilon_1": 1.0, "cooldown": 1, "linkage": "single"}, {FREE: 0.7, ORACLE: 1.0}),
    FinishedTrial({"epsilon_1": 1.0, "cooldown": 1, "linkage": "complete"}, {FREE: 0.9}),
    FinishedTrial({"epsilon_1": 0.1, "cooldown": 9, "linkage": "single"}, {FREE: 0.6, ORACLE: 0.5}),
]


def drawn():
    return {
        "curves": draw_score_curves(TRIED, [X, Y], SCORES, "linkage"),
        "heat-map": draw_heat_map(TRIED, X, Y, SCORES),
    }


def test_search_figures_have_the_same_bytes_every_time(tmp_path):
    for kind in ("svg", "png"):
        for name, figure in drawn().items():
            save(figure, tmp_path / f"{name}.{kind}")
            first = (tmp_path / f"{name}.{kind}").read_bytes()
            save(drawn()[name], tmp_path / f"{name}.{kind}")
            assert (tmp_path / f"{name}.{kind}").read_bytes() == first


def test_heat_map_has_a_dot_in_its_colour_for_each_trial_the_best_of_a_place_on_top():
    free, oracle = draw_heat_map(TRIED, X, Y, SCORES).axes
    (dots,) = free.collections
    assert dots.get_offsets().tolist() == [[0.01, 1], [0.1, 9], [1, 1], [1, 1]]
    assert dots.get_array().tolist() == [0.5, 0.6, 0.7, 0.9]
    assert (free.get_title(), oracle.get_title()) == (FREE, ORACLE)
    assert oracle.collections[0].get_clim() == (0.0, 1.0)
    assert dots.get_clim() == (0.5, 0.9)


def test_best_trial_of_each_score_is_ringed():
    free, oracle = draw_heat_map(TRIED, X, Y, SCORES).axes
    assert [line.get_xydata().tolist() for line in (free.lines[-1], oracle.lines[-1])] == [[[1.0, 1.0]]] * 2
    curves = draw_score_curves(TRIED, [X, Y], SCORES, "linkage").axes
    assert [panel.lines[-1].get_xydata().tolist()[0] for panel in curves] == [
        [1.0, 0.9],
        [1.0, 0.9],
        [1.0, 1.0],
        [1.0, 1.0],
    ]


def test_search_figures_have_log_and_whole_number_axes():
    left, right = draw_score_curves(TRIED, [X, Y], {FREE: None}).axes
    assert (left.get_xscale(), left.get_xlim()) == ("log", (0.01, 1))
    assert {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0} <= {round(tick, 6) for tick in left.get_xticks()}
    assert (right.get_xscale(), right.get_xlim()) == ("linear", (1, 9))
    assert all(tick == int(tick) for tick in right.get_xticks())


def test_line_joins_trials_that_differ_in_one_setting():
    one = [FinishedTrial({"epsilon_1": value}, {FREE: value}) for value in (1.0, 0.1)]
    [panel] = draw_score_curves(one, [X], {FREE: None}).axes
    assert panel.lines[0].get_xydata().tolist() == [[0.1, 0.1], [1.0, 1.0]]
    [panel] = draw_score_curves(TRIED, [X], {FREE: None}).axes
    assert all(len(line.get_xydata()) == 1 for line in panel.lines)


def test_panel_without_a_score_says_so():
    [panel] = draw_score_curves(TRIED, [X], {"silhouette": None}).axes
    assert [text.get_text() for text in panel.texts] == ["no trial has this\nscore"]
    [panel] = draw_heat_map([], X, Y, {FREE: None}).axes
    assert [text.get_text() for text in panel.texts] == ["no trial has this\nscore"]
