"""What an arena writes into its grid's folder: outcomes, settings, verdicts, figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedgrid.engine.runtime.storage.atomic import disk_errors
from fedgrid.grids.arena import kept
from fedgrid.grids.arena.kept import TunedMethod
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.verdicts.outcomes import Outcome
from fedgrid.tracking.verdicts.verdict import Verdict
from fedgrid.tracking.verdicts.words import tables_on, verdict_page

if TYPE_CHECKING:
    from fedgrid.tracking.report.page import Plate

VERDICT, TABLES, FIGURES = "verdict.md", "tables.tex", "figures"
FILES = (VERDICT, TABLES, kept.OUTCOMES, kept.SETTINGS, f"{FIGURES}/")
FORMATS = ("svg", "png")


def write(
    folder: GridFolder,
    outcomes: Sequence[Outcome],
    tuned: Sequence[TunedMethod],
    verdicts: Sequence[Verdict],
    notes: Sequence[str],
    budget: int,
) -> None:
    """Write all files; figures only if the outcomes are others than before. `budget`: steps of fine-tuning.

    Raises:
        RunError: if they cannot be written.
    """
    # They import matplotlib, which takes a second.
    from fedgrid.tracking.verdicts.page import latex, plates_of, results, section_text

    texts = kept.texts_of(outcomes, tuned)
    sections = results(outcomes, budget)
    plates = tuple(plates_of(sections))
    if not _is_drawn(folder, texts[kept.OUTCOMES], plates):
        _draw(folder, plates)
    for name, text in texts.items():
        folder.write(name, text)
    below = "\n".join(section_text(section, f"{FIGURES}/{{}}.svg") for section in sections)
    folder.write(TABLES, latex(tables_on(verdicts, budget), sections))
    folder.write(VERDICT, verdict_page(verdicts, budget, notes, below))


def _is_drawn(folder: GridFolder, outcomes: str, plates: Sequence[Plate]) -> bool:
    path = folder.path / kept.OUTCOMES
    drawn = (folder.path / FIGURES / f"{plate.name}.{kind}" for plate in plates for kind in FORMATS)
    return path.is_file() and path.read_bytes() == outcomes.encode() and all(file.is_file() for file in drawn)


def _draw(folder: GridFolder, plates: Sequence[Plate]) -> None:
    from fedgrid.tracking.figures import save

    place = folder.path / FIGURES
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        for plate in plates:
            figure = plate.draw()
            for kind in FORMATS:
                save(figure, place / f"{plate.name}.{kind}")
    root = folder.storage.root
    folder.storage.push(*(path.relative_to(root).as_posix() for path in sorted(place.iterdir())))
