"""A cell of ours with the published number beside it."""

from dataclasses import replace

from fedgrid.tracking.tables.table import ABSENT, FAR, Cell, Tone


def beside(cell: Cell, reference: float, text: str, *, far: float, highest: bool | None = True) -> Cell:
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
