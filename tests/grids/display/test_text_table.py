"""Tables, and keys with values, on terminals of any width."""

import io

from fedgrid.grids.display.plain_console import PlainConsole
from fedgrid.grids.display.text_table import TextTable, build_text_table, print_pairs
from fedgrid.tracking.tables.table import Cell, Column, Row, Table

COLUMNS = tuple(
    Column(split, dataset)
    for dataset in ("mnist", "fmnist")
    for split in ("nonoverlapping balanced", "overlapping balanced", "rotated")
)


def lines(width: int, *notes: str) -> list[str]:
    cells = tuple(Cell("0.812 ± 0.010", 0.812, notes=notes if not index else ()) for index in range(6))
    rows = (Row("ocfl-hdbscan", cells), Row("sattler", cells[1:] + cells[1:2]))
    console = PlainConsole(file=io.StringIO(), width=width)
    console.print(
        build_text_table(Table("one", "PA: mine", "What it is.", COLUMNS, rows, corner="algorithm"))
    )
    return console.file.getvalue().splitlines()


def test_eighty_columns_have_a_part_for_each_group():
    shown = lines(80)
    assert max(map(len, shown)) <= 80
    assert [line.strip() for line in shown if "mnist" in line] == ["mnist", "fmnist"]
    assert [line.split()[0] for line in shown if "±" in line] == ["ocfl-hdbscan", "sattler"] * 2


def test_wide_terminal_has_one_part_with_groups_above_their_columns():
    shown = lines(120)
    [groups] = [line for line in shown if "mnist" in line]
    assert groups.split() == ["mnist", "fmnist"]
    assert sum("±" in line for line in shown) == 2


def test_numbers_stand_below_one_another_where_some_have_a_mark():
    first, second, *_ = [line for line in lines(120, "-") if "±" in line]
    assert first.index("0.812") == second.index("0.812")
    assert "0.010 - " in first


def printed(table: TextTable, width: int, **options: bool) -> list[str]:
    console = PlainConsole(file=io.StringIO(), width=width)
    console.print(table, **options)
    return console.file.getvalue().splitlines()


LISTED = TextTable(("name", "what", "count"), [("fedavg", "the mean of " + 9 * "all ", "7")], numbers=[2])


def test_text_is_wrapped_before_a_table_has_parts():
    assert printed(LISTED, 40) == [
        "name    what                       count",
        "fedavg  the mean of all all all        7",
        "        all all all all all all",
    ]


def test_a_file_has_a_row_a_line():
    assert printed(LISTED, 40, soft_wrap=True)[1:] == [f"fedavg  the mean of {9 * 'all '}      7"]


def test_columns_are_as_wide_as_their_widest_cell_on_the_terminal():
    """`猫` takes two places."""
    table = TextTable(("data", "ari"), [("猫", "1.000"), ("abcd", "–")], numbers=[1])
    assert printed(table, 40) == ["data    ari", "猫    1.000", "abcd      –"]


def test_space_between_columns_goes_before_a_table_has_parts():
    """Four columns of three characters: 18 with two spaces, 15 with one; 14 are too few."""
    table = TextTable("abcd", [["123"] * 4], numbers=range(4))
    assert printed(table, 18)[1] == "123  123  123  123"
    assert printed(table, 15)[1] == "123 123 123 123"
    assert [line for line in printed(table, 14) if "1" in line] == ["123  123  123", "123  123"]


def test_sections_and_lines_across_stand_between_rows():
    table = TextTable(("a", "b"), [["of mnist"], ["x", "1"], [], ["all", "1"]], "Title", [1])
    assert printed(table, 40) == ["Title", "a    b", "──────", "of mnist", "x    1", "──────", "all  1"]


def test_values_stand_below_one_another():
    console = PlainConsole(file=io.StringIO(), width=20)
    print_pairs(console, {"Files:": "runs/[a]", "One of them:": "b"}, "  ")
    assert console.file.getvalue() == "  Files:        runs/[a]\n  One of them:  b\n"
