"""Cells, notes and the three formats of a table."""

import csv
import io
import re
from dataclasses import replace

import pytest

from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown
from fedgrid.tracking.tables.table import (
    ABSENT,
    FAR_NOTE,
    NONE,
    Cell,
    Column,
    Row,
    Table,
    build_seed_mean_cell,
    build_share_cell,
    embolden_best,
    embolden_columns,
    format_fixed,
    letter_notes,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "expected", "text", "tone"),
    [
        ([0.9], 1, "0.90", ""),
        ([0.8, 1.0], 2, "0.90 ± 0.14", ""),
        ([0.8, 1.0], 3, "0.90 ± 0.14 (2/3)", "partial"),
        ([0.8, NAN], 2, "0.80 (1/2)", "partial"),
        ([NAN, NAN], 2, NONE, ""),
        ([NAN], 2, f"{NONE} (1/2)", "partial"),
        ([], 2, "", ""),
        ([-0.001], 1, "0.00", ""),
    ],
)
def test_a_number_says_what_it_is_the_mean_of(values, expected, text, tone):
    """The standard deviation of 0.8 and 1.0 is sqrt(0.02 / 1) = 0.1414."""
    cell = build_seed_mean_cell(values, expected=expected)
    assert (cell.text, cell.tone) == (text, tone)


def test_a_number_keeps_value_spread_and_count_in_full():
    cell = build_seed_mean_cell([0.8, 1.0], expected=2)
    assert (cell.value, cell.count) == (0.9, 2)
    assert cell.spread == pytest.approx(0.02**0.5)


def test_halves_are_rounded_away_from_zero():
    assert [
        format_fixed(0.345, 2),
        format_fixed(-0.345, 2),
        format_fixed(-0.0049, 2),
        format_fixed(2.5, 0),
        # A mean that is a bit of the last place below its half.
        format_fixed(0.24450000000000002 - 2e-16, 3),
    ] == [
        "0.35",
        "-0.35",
        "0.00",
        "3",
        "0.245",
    ]


def test_a_share_of_some_of_the_runs_says_of_how_many():
    assert [
        build_share_cell(31, 40, 40).text,
        build_share_cell(31, 38, 40).text,
        build_share_cell(0, 0, 40).text,
    ] == [
        "31/40",
        "31/38 of 40",
        "",
    ]


def test_bold_is_the_best_and_what_is_printed_like_it():
    """0.904 is printed 0.90, as the best is; a dash does not compete."""
    cells = [
        build_seed_mean_cell([0.9049]),
        build_seed_mean_cell([0.904]),
        build_seed_mean_cell([0.1]),
        Cell(NONE, 1.0),
    ]
    assert [cell.bold for cell in embolden_best(cells)] == [True, True, False, False]
    assert [cell.bold for cell in embolden_best(cells, highest=False)] == [False, False, True, False]


@pytest.mark.parametrize("lacking", [Cell(), build_seed_mean_cell([0.99], expected=2)])
def test_none_is_best_as_long_as_a_competitor_is_not_there(lacking):
    assert not any(
        cell.bold
        for cell in embolden_best([build_seed_mean_cell([0.9]), build_seed_mean_cell([0.1]), lacking])
    )


def test_bold_is_by_section_and_never_where_neither_end_is_better():
    rows = [
        Row(name, (build_seed_mean_cell([score]), build_seed_mean_cell([score])), section)
        for name, score, section in [("x", 0.1, "mnist"), ("y", 0.2, "mnist"), ("x", 0.0, "digits")]
    ]
    bold = embolden_columns(rows, [Column("best", highest=True), Column("none")])
    assert [row.cells[0].bold for row in bold] == [False, True, True]
    assert not any(row.cells[1].bold for row in bold)


def table() -> Table:
    columns = (Column("RAND", "balanced", ("why",)), Column("AMI", "balanced"), Column("who"))
    rows = (
        Row(
            "A & B",
            (replace(build_seed_mean_cell([0.8, 1.0], expected=2), bold=True), Cell(NONE, 0.0), Cell("50 %")),
            "mnist",
        ),
        Row(
            "C",
            (Cell(), Cell("-0.10 / 0.25", -0.1, notes=(FAR_NOTE, "more"), reference=0.25), Cell(ABSENT)),
            "mnist",
        ),
        Row("C", (Cell("0.10", 0.1), Cell(NONE), Cell("x|y")), "x_y", ("why",)),
    )
    notes = {"more": "More.", "unused": "Unused.", "why": "Because 1 < 2.", FAR_NOTE: "Far."}
    return Table("t", "Title", "A caption.", columns, rows, "algorithm", notes, "data set")


def test_notes_are_lettered_in_the_order_of_their_first_mention():
    named = letter_notes(table())
    assert named.notes == {FAR_NOTE: "Far.", "a": "Because 1 < 2.", "b": "More."}
    assert named.columns[0].notes == named.rows[2].notes == ("a",)
    assert named.rows[1].cells[1].notes == (FAR_NOTE, "b")


def test_csv_has_full_digits_seeds_and_references_where_there_are_any():
    lines = list(csv.reader(io.StringIO(to_csv(table()))))
    assert lines == [
        [
            *("data set", "algorithm", "balanced: RAND", "balanced: RAND spread", "balanced: RAND count"),
            *("balanced: RAND seeds", "balanced: AMI", "balanced: AMI reference", "who"),
        ],
        ["mnist", "A & B", "0.9", "0.14142135623730948", "2", "2", "0.0", "", "50 %"],
        ["mnist", "C", "", "", "", "", "-0.1", "0.25", ""],
        ["x_y", "C", "0.1", "", "", "", "", "", "x|y"],
    ]


def test_markdown():
    assert to_markdown(letter_notes(table())) == (
        "**Title.** A caption.\n"
        "\n"
        "| algorithm     | balanced: RAND<sup>a</sup> |               balanced: AMI |  who |\n"
        "| ------------- | -------------------------: | --------------------------: | ---: |\n"
        "| **mnist**     |                            |                             |      |\n"
        "| A & B         |            **0.90 ± 0.14** |                           – | 50 % |\n"
        "| C             |                            | -0.10 / 0.25<sup>*, b</sup> |    · |\n"
        "| **x_y**       |                            |                             |      |\n"
        "| C<sup>a</sup> |                       0.10 |                           – | x\\|y |\n"
        "\n"
        "- <sup>*</sup> Far.\n"
        "- <sup>a</sup> Because 1 < 2.\n"
        "- <sup>b</sup> More.\n"
    )


def test_latex_has_groups_sections_notes_and_nothing_unescaped():
    latex = to_latex(letter_notes(table()))
    assert r" & \multicolumn{2}{c}{balanced} & \multicolumn{1}{c}{} \\" in latex
    assert r"\cmidrule(lr){2-3}" in latex
    assert r"algorithm & RAND\textsuperscript{a} & AMI & who \\" in latex
    assert r"A \& B & \textbf{0.90 $\pm$ 0.14} & -- & 50 \% \\" in latex
    assert r"C &  & $-$0.10 / 0.25\textsuperscript{*, b} & $\cdot$ \\" in latex
    assert r"\midrule" + "\n" + r"\multicolumn{4}{l}{\textit{x\_y}} \\" in latex
    assert r"\par \textsuperscript{a}~Because 1 $<$ 2." in latex
    assert r"\caption{Title. A caption.}" + "\n" + r"\label{tab:t}" in latex
    assert latex.isascii()


def test_latex_opens_and_closes_what_it_uses_and_every_row_has_all_columns():
    latex = to_latex(letter_notes(table()))
    opened, closed = (re.findall(rf"\\{word}{{(\w+)}}", latex) for word in ("begin", "end"))
    assert opened == closed[::-1] == ["table", "tabular"]
    assert re.sub(r"\\[{}]", "", latex).count("{") == re.sub(r"\\[{}]", "", latex).count("}")
    rows = [line for line in latex.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}


def test_a_table_without_rows_can_be_written():
    empty = replace(table(), rows=(), notes={})
    assert to_csv(empty) == "algorithm,balanced: RAND,balanced: AMI,who\n"
    assert to_markdown(empty).count("\n") == 4
    assert r"\bottomrule" in to_latex(empty)
