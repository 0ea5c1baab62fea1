"""Writes a report: one HTML document, and each table and figure as files for papers."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.tracking import figures
from fedgrid.tracking.report import html
from fedgrid.tracking.report.page import DEFAULT_DRAWING, CaptionedFigure, DrawingOptions, Page, PageSection
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown

INDEX = "index.html"
TEMPORARY = ".writing-"
"""Prefix of the temporary folder in which a report is written."""
FORMATTERS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
NAME_PATTERN = r"\w[\w.+-]*"
LINK_PATTERN = re.compile(rf'href="((?:tables|figures)/{NAME_PATTERN})"')


@dataclass(frozen=True)
class ReportFiles:
    """The files of a report, relative to its folder."""

    files: tuple[str, ...]
    """The document first."""
    removed: tuple[str, ...]
    """Files of the earlier report that this one no longer has."""
    figures: int
    """Number of figures that are drawn."""


def write_report_files(
    page: Page,
    folder: Path,
    drawn: Callable[[int, int], object] = lambda done, total: None,
    drawing: DrawingOptions = DEFAULT_DRAWING,
) -> ReportFiles:
    """Write `index.html`, `tables/<name>.md|.tex|.csv` and `figures/<name>.svg`.

    The same page gives the same bytes. Each file is replaced atomically, the document last. Of the files in
    the folder, only those that the earlier document links to are removed. A folder has one writer at a time.

    Args:
        page: what to write.
        folder: where to write; created if missing.
        drawn: called with the number of figures drawn so far, and of all that are to be drawn.
        drawing: which figures, and in which formats.

    Raises:
        OSError: if it cannot be written; the earlier report is unchanged.
        ValueError: if two tables, figures or sections have the same name, or a name is no file name.
    """
    # Before anything is drawn: with two figures of one name the second would replace the first in silence.
    _check_names(page)
    tables, plates = tuple(page.list_tables()), tuple(page.list_figures(all_figures=drawing.all_figures))
    files = (
        INDEX,
        *(f"tables/{table.name}.{suffix}" for table in tables for suffix in FORMATTERS),
        *(f"figures/{plate.name}.{suffix}" for plate in plates for suffix in drawing.formats),
    )
    folder.mkdir(parents=True, exist_ok=True)
    # A writer that was killed leaves its temporary folder; there is one writer at a time.
    for leftover in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover)
    # Within the folder itself, because a file is replaced atomically on one file system only.
    with TemporaryDirectory(prefix=TEMPORARY, dir=folder) as name:
        temporary = Path(name)
        (temporary / "figures").mkdir()
        # 1. Draw and write everything here: if that fails, the earlier report is unchanged.
        for number, plate in enumerate(plates, start=1):
            draw_figure(plate, temporary / "figures", drawing)
            drawn(number, len(plates))
        (temporary / "tables").mkdir()
        for table in tables:
            for suffix, format_table in FORMATTERS.items():
                _write_text(temporary / "tables" / f"{table.name}.{suffix}", [format_table(table)])
        _write_text(temporary / INDEX, html.render_page(page, temporary, drawing))
        # 2. Remove what the new report no longer has, while the earlier document is still there to name it.
        removed = tuple(sorted(_list_files(folder / INDEX) - set(files)))
        # Only files that our own document names: the folder may have others of the user's.
        for file in removed:
            (folder / file).unlink(missing_ok=True)
        # 3. Replace the files, the document last: a reader of the new one follows no link to a missing file.
        for file in reversed(files):
            (folder / file).parent.mkdir(exist_ok=True)
            (temporary / file).replace(folder / file)
    return ReportFiles(files, removed, len(plates))


def draw_figure(plate: CaptionedFigure, folder: Path, drawing: DrawingOptions) -> None:
    """Draw a figure into a folder, a file `<name>.<format>` of each format."""
    try:
        with figures.style_context(*drawing.styles) if drawing.styles else nullcontext():
            figure = plate.draw()
        for suffix in drawing.formats:
            figures.save(figure, folder / f"{plate.name}.{suffix}")
    except Exception as error:
        # Matplotlib's errors do not say which of a hundred figures they come from.
        error.add_note(f"while drawing {plate.name}")
        raise


def _check_names(page: Page) -> None:
    """Check that names of tables, figures and sections are distinct and file names; a ValueError if not."""
    kinds = {
        "tables": [table.name for table in page.list_tables()],
        "figures": [plate.name for plate in page.list_figures()],
        "sections": [section.name for section in _list_sections(page.sections)],
    }
    for kind, names in kinds.items():
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"{count} {kind} are called {name!r}; files and anchors need distinct names")
            if not re.fullmatch(NAME_PATTERN, name):
                raise ValueError(
                    f"{kind} cannot be called {name!r}: expected letters, digits and any of . _ + -"
                )


def _list_sections(sections: tuple[PageSection, ...]) -> Iterator[PageSection]:
    """Yield sections and all sections below them."""
    for section in sections:
        yield section
        yield from _list_sections(section.sections)


def _list_files(index: Path) -> set[str]:
    """List the files of an earlier report, which its document links to."""
    return set(LINK_PATTERN.findall(index.read_text("utf-8", "replace"))) if index.exists() else set()


def _write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write a text file piece by piece."""
    # Fixed line ends and encoding: the same bytes on every platform.
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(pieces)
