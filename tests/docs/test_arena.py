"""The page of the arena's results is what docs/arena.py writes from the rows of the package."""

from docs import arena
from fedgrid.grids.arena import stored_results
from fedgrid.grids.arena.definition import BUDGET
from fedgrid.tracking.verdicts.page import build_sections, list_figures


def test_results_and_figures_are_those_of_the_kept_rows():
    found = stored_results.read_results()
    sections = build_sections(found.outcomes.values(), BUDGET)
    text = arena.PAGE.read_text(encoding="utf-8")
    assert text == arena.format_page(found, sections), "python docs/arena.py writes it again"
    drawn = {path.stem for path in arena.PICTURES.glob("*.png")}
    assert drawn == {plate.name for plate in list_figures(sections)}
