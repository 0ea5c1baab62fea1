"""Interface of a paper's folder, and its printed numbers in cells and tables; `sections.PAPERS` lists all."""

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrid.tracking.names import name_in_papers
from fedgrid.tracking.papers.shared.claim import Claim
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import StudyColumn, explain_table
from fedgrid.tracking.tables.table import ABSENT, FAR_NOTE, Cell, Row, Table, Tone, letter_notes


@dataclass(frozen=True)
class Paper:
    """A paper whose numbers or claims a report can have next to ours."""

    name: str
    """Its name in the anchor of its section: `flis`."""
    title: str
    build_tables: Callable[[Study], tuple[Table, ...]] = lambda study: ()
    """Builds tables of our numbers and the printed ones: none without runs in the paper's setting."""
    by_setting: bool = False
    """Whether `build_tables` takes one combination of a grid's further axes at a time."""
    claims: tuple[Claim, ...] = ()
    """Claims of the paper that our runs can test."""


def read_csv_rows(path: Path) -> list[dict[str, str]]:
    """Read a row for each line of a csv file of printed numbers, by the names of its columns."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add_reference(
    cell: Cell, reference: float, text: str, *, far: float, highest: bool | None = True
) -> Cell:
    """Add a reference to a cell, which is printed as `text`; an empty cell stays empty.

    The cell is better or worse if the printed numbers differ. It has the note `FAR` if they differ by more
    than `far`.

    Args:
        cell: our number.
        reference: the published number.
        text: the published number as printed.
        far: largest difference without a note.
        highest: whether more is better, True by default; None: neither.
    """
    if not cell.text or cell.text == ABSENT:
        return replace(cell, reference=reference)
    # Rounded, so that a difference of exactly `far` in printed digits is not above it in binary.
    difference = 0.0 if cell.value is None else round(cell.value - reference, 4)
    # By the printed text: numbers that a reader sees as equal have no colour.
    is_equal = cell.text.split(" ")[0] == text or highest is None or not difference
    tone: Tone = "" if is_equal else "better" if (difference > 0) == highest else "worse"
    return replace(
        cell,
        text=f"{cell.text} / {text}",
        reference=reference,
        tone=cell.tone or tone,
        notes=(*cell.notes, *([FAR_NOTE] if abs(difference) > far else [])),
    )


def build_reference_table(
    study: Study,
    name: str,
    title: str,
    caption: str,
    columns: Iterable[StudyColumn],
    notes: Mapping[str, str] | None = None,
    find_notes: Callable[[Run], tuple[str, ...]] = lambda run: (),
) -> Table:
    """Build a table with a row for each algorithm, of our numbers and the printed ones.

    Rows have the papers' names, and the caption has the algorithms' ids.

    Args:
        study: the runs.
        name: of the table's files.
        title: of the table.
        caption: the content of the cells.
        columns: the columns with the functions of their cells.
        notes: footnotes by key; None (default): none.
        find_notes: finds the keys of the notes that apply to a run's algorithm; none by default.
    """
    columns = tuple(columns)
    rows = []
    for algorithm in study.algorithms:
        own = study.with_values(algorithm=algorithm)
        run = own.runs[0]
        cells = tuple(column.cell(own) for column in columns)
        rows.append(Row(name_in_papers(algorithm, run.published), cells, notes=find_notes(run)))
    caption = f"{caption} {study.names_line}".rstrip()
    table = Table(name, title, caption, columns, tuple(rows), corner="algorithm", notes=notes or {})
    return letter_notes(explain_table(table, study))
