"""What a paper's folder provides, and reads and prints alike; `sections.PAPERS` lists them all."""

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrid.tracking.names import name_in_papers
from fedgrid.tracking.papers.shared.claim import Claim
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import StudyColumn, explain_cells
from fedgrid.tracking.tables.table import ABSENT, FAR, Cell, Row, Table, Tone, letter_notes


@dataclass(frozen=True)
class Paper:
    """A paper whose numbers or claims a report can have beside ours."""

    name: str
    """As in the anchor of its section: `flis`."""
    title: str
    beside: Callable[[Study], tuple[Table, ...]] = lambda study: ()
    """Our numbers beside the printed ones: no table if a study has no runs in the paper's setting."""
    by_setting: bool = False
    """Whether `beside` takes one combination of a grid's further axes at a time."""
    claims: tuple[Claim, ...] = ()
    """What the paper says, as our runs can tell."""


def csv_rows(path: Path) -> list[dict[str, str]]:
    """Return a row for each line of a csv file of printed numbers, by the names of its columns."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def put_beside(cell: Cell, reference: float, text: str, *, far: float, highest: bool | None = True) -> Cell:
    """Return a cell with its reference, which is printed as `text`; an empty cell stays empty.

    The cell is better or worse if the printed numbers differ. It has the note `FAR` if they differ by more
    than `far`.
    """
    if not cell.text or cell.text == ABSENT:
        return replace(cell, reference=reference)
    difference = 0.0 if cell.value is None else round(cell.value - reference, 4)
    is_equal = cell.text.split(" ")[0] == text or highest is None or not difference
    tone: Tone = "" if is_equal else "better" if (difference > 0) == highest else "worse"
    return replace(
        cell,
        text=f"{cell.text} / {text}",
        reference=reference,
        tone=cell.tone or tone,
        notes=(*cell.notes, *([FAR] if abs(difference) > far else [])),
    )


def table_beside(
    study: Study,
    name: str,
    title: str,
    caption: str,
    columns: Iterable[StudyColumn],
    notes: Mapping[str, str] | None = None,
    notes_of: Callable[[Run], tuple[str, ...]] = lambda run: (),
) -> Table:
    """Return a row an algorithm, with the keys of those `notes` that apply to its runs by `notes_of`.

    Rows have the papers' names, and the caption says what they are called here.
    """
    columns = tuple(columns)
    rows = []
    for algorithm in study.algorithms:
        own = study.of(algorithm=algorithm)
        run = own.runs[0]
        cells = tuple(column.cell(own) for column in columns)
        rows.append(Row(name_in_papers(algorithm, run.published), cells, notes=notes_of(run)))
    caption = f"{caption} {study.names_line}".rstrip()
    table = Table(name, title, caption, columns, tuple(rows), corner="algorithm", notes=notes or {})
    return letter_notes(explain_cells(table, study))
