"""A paper's table on the terminal."""

import io

import pytest

from fedgrid.grids.display.by_axes import show_table
from fedgrid.grids.display.plain import PlainConsole
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
    show_table(Table("one", "PA: mine", "What it is.", COLUMNS, rows, corner="algorithm"), console)
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


@pytest.mark.parametrize("width", [20, 40])
def test_narrow_terminal_has_a_column_a_part_and_breaks_no_cell(width):
    assert all(line.count("0.812 ± 0.010") >= 1 for line in lines(width) if "±" in line)


def test_numbers_stand_below_one_another_where_some_have_a_mark():
    first, second, *_ = [line for line in lines(120, "-") if "±" in line]
    assert first.index("0.812") == second.index("0.812")
    assert "0.010 - " in first
