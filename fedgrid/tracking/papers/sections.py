"""The sections of a report on the papers: our numbers next to theirs, and their claims."""

from collections.abc import Iterator, Sequence

from fedgrid.tracking.papers.bettinelli.claims import PAPER as BETTINELLI
from fedgrid.tracking.papers.flis.claims import PAPER as FLIS
from fedgrid.tracking.papers.ocfl.tables import PAPER as OCFL
from fedgrid.tracking.papers.prigent.tables import PAPER as PRIGENT
from fedgrid.tracking.papers.shared.claim import Check, Claim, combine_verdicts
from fedgrid.tracking.papers.shared.paper import Paper
from fedgrid.tracking.report.page import PageSection, add_suffix
from fedgrid.tracking.scoring.axes import format_setting, select_setting
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.table import Cell, Column, Row, Table, format_fixed

PAPERS = (FLIS, PRIGENT, OCFL, BETTINELLI)


NOTHING_PUBLISHED = (
    "The papers have no tables for the data sets and settings of this grid. Claims, if it has the runs for "
    "any, are under Claims of the papers."
)
CAPTION = (
    "Claims that the grid has the runs for; FedAvg is BNC here, CFL is SCL. Ours: the number that the "
    "claim is about, mean over seeds and comparisons, in brackets the least and the greatest mean of one; "
    "claimed is where it should lie. In one scenario a claim holds if the 95 % interval (Student's t over "
    "seeds) of the number lies within the claimed interval, and does not if it lies outside; otherwise, "
    "and with one seed, it cannot be said. It holds if it does in all comparisons, and does not if it "
    "fails in one."
)


def build_paper_sections(study: Study) -> list[PageSection]:
    """Build the table of claims that a study has the runs for, and our numbers next to the printed ones.

    Without any such numbers a section says so.
    """
    table = build_claims_table(study)
    published_sections = [section for paper in PAPERS for section in _build_sections_of_paper(paper, study)]
    return [
        *([PageSection("claims", table.title, items=(table,))] if table else []),
        *(
            published_sections
            or [PageSection("published", "Beside the published numbers", NOTHING_PUBLISHED)]
        ),
    ]


def _build_sections_of_paper(paper: Paper, study: Study) -> Iterator[PageSection]:
    """Yield the sections of one paper, one for each setting if it is compared by setting."""
    for setting in study.settings if paper.by_setting else [()]:
        # A printed number is of one setting: a mean over several of ours would be comparable with none.
        if tables := paper.build_tables(select_setting(study, setting) if setting else study):
            title = f"Beside the published numbers: {paper.title}"
            yield add_suffix(
                PageSection(f"published-{paper.name}", title, items=tables), format_setting(setting)
            )


def build_claims_table(study: Study) -> Table | None:
    """Build the table of the claims that a study has the runs for, None if there are none."""
    rows = []
    for paper in PAPERS:
        for claim in paper.claims:
            if checks := tuple(claim.checks(study)):
                rows.append(Row(claim.text, _build_cells(claim, checks), paper.title))
    if not rows:
        return None
    columns = ("paper's evidence", "ours", "claimed", "verdict", "holds in", "seeds", "scenarios")
    return Table(
        "claims",
        "Claims of the papers",
        f"{CAPTION} The verdicts are of this grid's runs ({', '.join(study.datasets)}): they speak of the "
        "paper where data, model and rounds are the paper's.",
        tuple(map(Column, columns)),
        tuple(rows),
        corner="claim",
        part="paper",
    )


def _build_cells(claim: Claim, checks: Sequence[Check]) -> tuple[Cell, ...]:
    """Build the cells of a claim: our number, the claimed interval, the verdict and its basis."""
    means = [check.mean for check in checks]
    mean = sum(means) / len(means)
    span = f" ({format_fixed(min(means), 3)} to {format_fixed(max(means), 3)})" if len(means) > 1 else ""
    holding = sum(check.verdict == "holds" for check in checks)
    words = combine_verdicts(checks)
    seeds = min(len(check.values) for check in checks)
    scenarios = len({check.scenario for check in checks})
    return (
        Cell(claim.evidence),
        Cell(f"{claim.ours}: {format_fixed(mean, 3)}{span}", mean),
        Cell(claim.claimed),
        Cell(words, bold=words != "cannot be said"),
        Cell(f"{holding}/{len(checks)}", holding / len(checks)),
        Cell(str(seeds), float(seeds)),
        Cell(str(scenarios), float(scenarios)),
    )
