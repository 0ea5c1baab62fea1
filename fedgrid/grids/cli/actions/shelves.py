"""What shelves add to a grid's report: our numbers beside those of papers, and imported explanations."""

from fedgrid.grids.archive import explanation_records
from fedgrid.grids.explain.shown.scores import explanation_sections
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.papers.sections import NOTHING_PUBLISHED, paper_sections
from fedgrid.tracking.report.page import Section
from fedgrid.tracking.scoring.study import Study

__all__ = ["NOTHING_PUBLISHED", "imported_explanations", "paper_sections"]


def imported_explanations(grid: GridFolder, study: Study) -> tuple[Section, ...]:
    """Return the sections on published scores of explanations that are of runs of the study."""
    there = {(run.scenario[:3], run.method) for run in study.runs}
    rows = explanation_records.explained(grid)
    return tuple(explanation_sections([row for row in rows if (row.scenario, row.algorithm) in there]))
