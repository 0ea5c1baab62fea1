"""Reports whose figures are empty files: to draw them takes longer than all else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from fedgrid.tracking.report import write
from fedgrid.tracking.report.page import Drawing, Plate


@contextmanager
def skip_drawing() -> Iterator[None]:
    """Write empty figures of a report in the block."""

    def empty(plate: Plate, folder: Path, drawing: Drawing) -> None:
        for suffix in drawing.formats:
            (folder / f"{plate.name}.{suffix}").write_text('<svg viewBox="0 0 9 9"/>')

    with patch.object(write, "draw_plate", empty):
        yield
