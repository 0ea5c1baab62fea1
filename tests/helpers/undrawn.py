"""Reports whose figures are empty files: to draw them takes longer than all else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from fedgrid.tracking.report import report_files
from fedgrid.tracking.report.page import CaptionedFigure, DrawingOptions


@contextmanager
def skip_drawing() -> Iterator[None]:
    """Write empty figures of a report in the block."""

    def empty(plate: CaptionedFigure, folder: Path, drawing: DrawingOptions) -> None:
        for suffix in drawing.formats:
            (folder / f"{plate.name}.{suffix}").write_text('<svg viewBox="0 0 9 9"/>')

    with patch.object(report_files, "draw_figure", empty):
        yield
