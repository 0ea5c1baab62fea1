"""A report's files: the same bytes, nothing of an earlier one left, nothing of anyone else's touched."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from fedgrid.tracking.report.page import CaptionedFigure, DrawingOptions, Page, PageSection
from fedgrid.tracking.report.report_files import write_report_files
from tests.helpers.demo_page import make_demo_page, make_plate, make_small_table


def page_of(*names: str) -> Page:
    """Return a page with a table and a figure of each name."""
    items = tuple(item for name in names for item in (make_small_table(name), make_plate(name)))
    return Page("Report", (), (PageSection("only", "Only", items=items),))


def files_in(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_every_table_and_figure_is_a_file_in_each_format(tmp_path):
    drawing = DrawingOptions(formats=("svg", "pdf"))
    written = write_report_files(page_of("one"), tmp_path / "new" / "report", drawing=drawing)
    assert written.files == (
        "index.html",
        *("tables/one.md", "tables/one.tex", "tables/one.csv"),
        *("figures/one.svg", "figures/one.pdf"),
    )
    assert written.figures == 1
    assert sorted(files_in(tmp_path / "new" / "report")) == sorted(written.files)
    assert written.removed == ()


def test_the_same_page_gives_the_same_bytes(tmp_path):
    for folder in ("first", "second", "second"):
        write_report_files(make_demo_page("mnist"), tmp_path / folder)
    assert files_in(tmp_path / "first") == files_in(tmp_path / "second")


def test_figures_are_counted_as_they_are_drawn(tmp_path):
    numbers: list[tuple[int, int]] = []
    write_report_files(
        make_demo_page("mnist"),
        tmp_path,
        lambda *done: numbers.append(done),
        DrawingOptions(all_figures=True),
    )
    assert numbers == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_files_that_the_report_no_longer_has_are_removed_and_other_files_stay(tmp_path):
    write_report_files(page_of("kept", "dropped"), tmp_path, drawing=DrawingOptions(formats=("svg", "png")))
    others = {
        "tables/mine.csv": b"mine",
        "figures/old.png": b"old",
        "notes.txt": b"notes",
        "tables/dropped.txt": b"",
    }
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    written = write_report_files(page_of("kept"), tmp_path)
    assert written.removed == (
        *("figures/dropped.png", "figures/dropped.svg", "figures/kept.png"),
        *("tables/dropped.csv", "tables/dropped.md", "tables/dropped.tex"),
    )
    assert sorted(files_in(tmp_path)) == sorted((*written.files, *others))
    assert {name: files_in(tmp_path)[name] for name in others} == others


def test_a_missing_file_of_an_earlier_report_is_ignored(tmp_path):
    write_report_files(page_of("one"), tmp_path)
    (tmp_path / "tables" / "one.csv").unlink()
    write_report_files(page_of("two"), tmp_path)
    assert (tmp_path / "tables" / "two.csv").exists()


def no_figure(error: str) -> Figure:
    raise ArithmeticError(error)


def test_a_figure_that_fails_is_named_and_the_earlier_report_stays(tmp_path):
    write_report_files(page_of("one"), tmp_path)
    before = files_in(tmp_path)
    bad = CaptionedFigure("bad", "Bad", "Bad.", partial(no_figure, "no data"))
    page = page_of("one", "two")
    with pytest.raises(ArithmeticError, match="no data") as caught:
        write_report_files(
            replace(page, sections=(*page.sections, PageSection("bad", "Bad", items=(bad,)))), tmp_path
        )
    assert caught.value.__notes__ == ["while drawing bad"]
    assert files_in(tmp_path) == before
    assert not list(tmp_path.glob(".*"))


def test_the_temporary_folder_of_a_killed_writer_is_removed(tmp_path):
    (tmp_path / ".writing-killed" / "tables").mkdir(parents=True)
    (tmp_path / ".writing-killed" / "tables" / "half.csv").touch()
    write_report_files(page_of("one"), tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_two_tables_with_the_same_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="2 tables are called 'one'"):
        write_report_files(page_of("one", "one"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../one", "a b", "", ".hidden"])
def test_a_name_that_cannot_be_a_file_name_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="tables cannot be called"):
        write_report_files(page_of(name), tmp_path)
