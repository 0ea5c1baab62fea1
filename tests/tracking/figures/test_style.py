"""Figures in a style of the user's, on request only."""

import matplotlib
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fedgrid.tracking import figures
from tests.helpers.studies import ONE, make_result, make_run, make_study

STYLE = {"axes.facecolor": "#abcdef", "font.size": 30.0, "text.usetex": True, "axes.titlesize": 30.0}


def drawn() -> Figure:
    return figures.per_round(make_study([make_result(make_run("a_$b"), ONE)]), kind="ari")


def face(figure: Figure) -> str:
    return to_hex(figure.axes[0].get_facecolor())


def test_style_of_a_block_is_that_of_its_figures_also_when_saved_after_it(tmp_path):
    (tmp_path / "mine.mplstyle").write_text("axes.facecolor: abcdef\nytick.color: red\n")
    with figures.style_context(tmp_path / "mine.mplstyle"):
        figure = drawn()
    figures.save(figure, tmp_path / "figure.svg")
    assert face(figure) == "#abcdef"
    assert "#ff0000" in (tmp_path / "figure.svg").read_text()
    assert face(drawn()) == "#ffffff"


def test_users_own_settings_are_kept_without_a_name_and_only_in_the_block():
    with matplotlib.rc_context(STYLE):
        assert face(drawn()) == "#ffffff"
        with figures.style_context():
            assert face(drawn()) == "#abcdef"


def test_text_keeps_its_size_and_names_are_no_markup(tmp_path):
    with figures.style_context(STYLE):
        figure = drawn()
    assert figure.axes[0].title.get_size() == drawn().axes[0].title.get_size()
    figures.save(figure, tmp_path / "figure.svg")
    assert "a_$b" in (tmp_path / "figure.svg").read_text()


def test_style_that_does_not_exist_is_an_error_and_leaves_none_behind():
    with pytest.raises(OSError, match="nonesuch"), figures.style_context("nonesuch"):
        pass
    assert face(drawn()) == "#ffffff"


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_are_boxes_without_a_warning(tmp_path):
    figure = figures.per_round(make_study([make_result(make_run("a_狗"), ONE)]), kind="ari")
    figures.save(figure, tmp_path / "figure.png")
    figures.save(figure, tmp_path / "figure.svg")
    assert "a_狗" in (tmp_path / "figure.svg").read_text()
