"""The results in docs/arena.md are those that docs/arena.py writes from what fedgrid keeps."""

from docs import arena
from fedgrid.grids.arena import kept
from fedgrid.grids.arena.definition import BUDGET
from fedgrid.tracking.verdicts.page import plates_of, results


def test_results_and_figures_are_those_of_the_kept_rows():
    found = kept.read()
    sections = results(found.outcomes.values(), BUDGET)
    for page in (arena.PAGE, arena.EVIDENCE):
        text = page.read_text(encoding="utf-8")
        assert text == arena.with_results(page, found, sections), "python docs/arena.py writes them again"
    drawn = {path.stem for path in arena.PICTURES.glob("*.png")}
    assert drawn == {plate.name for plate in plates_of(sections)}
