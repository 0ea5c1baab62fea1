"""The sections of a report on the papers: our numbers beside theirs, and their claims."""

from collections.abc import Iterator, Sequence

from fedgrid.tracking.papers.claims_table import claims
from fedgrid.tracking.papers.papers import PAPERS
from fedgrid.tracking.papers.shared.paper import Paper
from fedgrid.tracking.report import settings
from fedgrid.tracking.report.page import Section
from fedgrid.tracking.scoring.axes import of_setting
from fedgrid.tracking.scoring.study import Study

NOTHING_PUBLISHED = (
    "The papers have no tables for the data sets and settings of this grid. Claims, if it has the runs for "
    "any, are under Claims of the papers."
)


def published_sections(study: Study) -> Sequence[Section]:
    """Return our numbers beside the printed ones, a section a paper; one that says so if there are none."""
    found = [section for paper in PAPERS for section in _of_paper(paper, study)]
    return found or [Section("published", "Beside the published numbers", NOTHING_PUBLISHED)]


def _of_paper(paper: Paper, study: Study) -> Iterator[Section]:
    for setting in study.settings if paper.by_setting else [()]:
        if tables := paper.beside(of_setting(study, setting) if setting else study):
            title = f"Beside the published numbers: {paper.title}"
            yield settings.of_setting(Section(f"published-{paper.name}", title, items=tables), setting)


def claims_sections(study: Study) -> Iterator[Section]:
    """Yield the section of the claims that a study has the runs for, if there are any."""
    table = claims(study)
    if table is not None:
        yield Section("claims", table.title, items=(table,))
