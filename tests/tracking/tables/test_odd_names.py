"""Names with signs that a format has for itself, in the files of a report: text, whatever the format."""

import pytest

from fedgrid.redaction import escape_markdown
from fedgrid.tracking.figures.style import COLUMN, PaperFigure, paper_style, save
from fedgrid.tracking.tables.formats import to_latex, to_markdown
from fedgrid.tracking.tables.table import Cell, Column, Row, Table


def table(name):
    return Table("t", name, name, (Column(name),), (Row(name, (Cell("-0.5", -0.5),)),), name)


def test_markdown_table_keeps_its_rows_and_has_no_html():
    text = to_markdown(table("a|b\nc <img src=x> ![d](http://e)"))
    lines = text.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("| ") and line.count("|") - line.count(r"\|") == 3 for line in lines[2:])
    assert "<img" not in text
    assert "](" not in text


def test_markdown_keeps_comparisons():
    assert escape_markdown("p < 0.05, a_b") == "p < 0.05, a_b"


def test_latex_row_is_no_argument_of_the_row_before():
    text = to_latex(table("[v2] $\\frac{$\n\nend"))
    assert "\n{}[v2] \\$\\textbackslash{}frac\\{\\$  end & -0.50" in text.replace("$-$0.5 ", "-0.50 ")
    assert "\n\n" not in text


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_figure_draws_dollars_as_they_are(tmp_path, suffix):
    with paper_style():
        figure = PaperFigure(figsize=(COLUMN, 1))
        axes = figure.subplots()
        axes.set_title("LS $\\frac{$")
        axes.plot([0, 1], label="$\\frac{$")
        axes.legend()
    save(figure, tmp_path / f"figure.{suffix}")
    if suffix == "svg":
        assert "LS $\\frac{$" in (tmp_path / "figure.svg").read_text()
