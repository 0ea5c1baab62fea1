"""Attacks in a grid's report: the table that the last `fedgrid attack` of each kind has shown."""

from dataclasses import replace

from fedgrid.engine.attacks.settings import ATTACK_KINDS, AttackKind
from fedgrid.engine.errors import RunError
from fedgrid.engine.format import DamagedFile, seal, unseal
from fedgrid.grids.attack.results import FOLDER
from fedgrid.grids.attack.show import LEVEL, Summary, table_of
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.against.prigent import against_attack
from fedgrid.tracking.report.page import Page, Section
from fedgrid.tracking.tables.table import Table

MESSAGES = "error from messages MSE"
TEXT = (
    "What a server, or whoever has the clusters' models, learns of the clients' images: docs/attacks.md. Of "
    "the runs that were finished when `fedgrid attack` last ran."
)


def keep_summary(grid: GridFolder, kind: AttackKind, summary: Summary) -> None:
    """Keep the table of an attack for the report.

    Raises:
        RunError: it cannot be written.
    """
    grid.write(_name(kind), seal({"summary": summary}, indent=1))


def with_attacks(page: Page, grid: GridFolder, *, published: bool = False) -> Page:
    """Return a report with a section on the attacks on its grid, if there were any.

    With `published` a paper's table stands beside that of the same runs.

    Raises:
        RunError: a summary is damaged.
    """
    tables = []
    for kind in ATTACK_KINDS:
        try:
            summary = unseal(grid.path / _name(kind))["summary"]
        except FileNotFoundError:
            continue
        except DamagedFile as error:
            raise RunError(f"{error}: `fedgrid attack {grid.name} --kind {kind}` writes it again") from error
        tables.append(table_of(kind, summary))
        if published and kind == "reconstruction" and (beside := _beside(summary)) is not None:
            tables.append(beside)
    if not tables:
        return page
    *before, last = page.sections
    return replace(page, sections=(*before, Section("attacks", "Attacks", TEXT, items=tuple(tables)), last))


def _beside(summary: Summary) -> Table | None:
    errors = {
        level: [value for value in row[MESSAGES] if value is not None]
        for row in summary
        if (level := row.get(LEVEL))
    }
    return against_attack(errors)


def _name(kind: AttackKind) -> str:
    return f"{FOLDER}/{kind}.json"
