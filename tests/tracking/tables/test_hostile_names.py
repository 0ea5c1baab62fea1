"""Names that somebody else wrote, in the files of a report: text, whatever the format."""

import csv
import io

import pytest

from fedgrid.redaction import in_csv, in_markdown
from fedgrid.tracking.figures.style import COLUMN, PaperFigure, paper_style, save
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown
from fedgrid.tracking.tables.table import Cell, Column, Row, Table

LINK = '=HYPERLINK("http://x")'


def table(name):
    return Table("t", name, name, (Column(name),), (Row(name, (Cell("-0.5", -0.5),)),), name)


@pytest.mark.parametrize("text", [LINK, "+1+cmd", "-1+cmd", "@SUM(1)", "\t=1"])
def test_text_like_a_formula_has_an_apostrophe(text):
    assert in_csv(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-0.5", "+3", "-1e-05", -0.5, None, "fedavg", "–"])
def test_numbers_and_other_texts_stay_in_a_csv_file(value):
    assert in_csv(value) == value


def test_control_characters_are_escapes_in_csv():
    assert in_csv("\x1b[31mred") == r"\x1b[31mred"


def test_csv_table_has_no_formula():
    [heading, row] = csv.reader(io.StringIO(to_csv(table(LINK))))
    assert heading[:2] == [f"'{LINK}", f"'{LINK}"]
    assert row == [f"'{LINK}", "-0.5"]


def test_markdown_table_keeps_its_rows_and_has_no_html():
    text = to_markdown(table("a|b\nc <img src=x> ![d](http://e) \x1b[2J"))
    lines = text.splitlines()
    assert len(lines) == 5
    assert all(line.startswith("| ") and line.count("|") - line.count(r"\|") == 3 for line in lines[2:])
    assert not {"\x1b"} & set(text)
    assert "<img" not in text
    assert "](" not in text


def test_markdown_keeps_comparisons():
    assert in_markdown("p < 0.05, a_b") == "p < 0.05, a_b"


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
