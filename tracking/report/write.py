"""A report as files: one HTML document, and beside it each table and figure in the formats papers take."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.tracking.report import draw, html
from fedgrid.tracking.report.page import Page, Section
from fedgrid.tracking.tables.formats import to_csv, to_latex, to_markdown

INDEX = "index.html"
PARTIAL = ".writing-"
"""How the folder begins in which a report is put together."""
WRITERS = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
NAME = r"\w[\w.+-]*"
LISTED = re.compile(rf'href="((?:tables|figures)/{NAME})"')


@dataclass(frozen=True)
class Written:
    """What a report is made of; names are relative to its folder."""

    files: tuple[str, ...]
    """The document first."""
    removed: tuple[str, ...]
    """Files of the report that was there before and is replaced."""


def write(page: Page, folder: Path, drawn: Callable[[int], object] = lambda number: None) -> Written:
    """Write `index.html`, `tables/<name>.md|.tex|.csv` and `figures/<name>.svg|.png`.

    The same page gives the same bytes. Each file is put in place whole, the document last. Of what was
    there before, only the files that the former document links to are removed. A folder has one writer at
    a time.

    Args:
        page: what to write.
        folder: where to; made if need be.
        drawn: called with the number of figures drawn so far.

    Raises:
        OSError: if it cannot be written; the report that was there before is still there.
        ValueError: if two tables, figures or sections of the page have one name, or a name is no file's.
    """
    _check_names(page)
    tables, plates = tuple(page.tables()), tuple(page.plates())
    files = (
        INDEX,
        *(f"tables/{table.name}.{suffix}" for table in tables for suffix in WRITERS),
        *(f"figures/{plate.name}.{suffix}" for plate in plates for suffix in draw.FORMATS),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover)
    with TemporaryDirectory(prefix=PARTIAL, dir=folder) as name:
        aside = Path(name)
        draw.draw(plates, aside / "figures", drawn)
        (aside / "tables").mkdir()
        for table in tables:
            for suffix, text_of in WRITERS.items():
                _write_text(aside / "tables" / f"{table.name}.{suffix}", [text_of(table)])
        _write_text(aside / INDEX, html.render(page, aside))
        removed = tuple(sorted(_listed(folder / INDEX) - set(files)))
        for file in removed:
            (folder / file).unlink(missing_ok=True)
        for file in reversed(files):
            (folder / file).parent.mkdir(exist_ok=True)
            (aside / file).replace(folder / file)
    return Written(files, removed)


def _check_names(page: Page) -> None:
    kinds = {
        "tables": [table.name for table in page.tables()],
        "figures": [plate.name for plate in page.plates()],
        "sections": [section.name for section in _all(page.sections)],
    }
    for kind, names in kinds.items():
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"{count} {kind} are called {name!r}; files and anchors need a name each")
            if not re.fullmatch(NAME, name):
                raise ValueError(
                    f"{kind} cannot be called {name!r}: expected letters, digits and any of . _ + -"
                )


def _all(sections: tuple[Section, ...]) -> Iterator[Section]:
    for section in sections:
        yield section
        yield from _all(section.sections)


def _listed(index: Path) -> set[str]:
    """Return the files that an earlier report's document links to."""
    return set(LISTED.findall(index.read_text(encoding="utf-8"))) if index.exists() else set()


def _write_text(path: Path, pieces: Iterable[str]) -> None:
    # Not in the platform's way: its line ends and encoding would be other bytes.
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(pieces)
