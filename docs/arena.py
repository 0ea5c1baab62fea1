"""The arena's results: `python docs/arena.py` writes docs/evidence/arena-results.md and docs/arena/*.png.

`python docs/arena.py FOLDER ...` first adds the rows and settings in these grids' folders to those that the
package has.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from fedgrid import figures
from fedgrid.grids.arena import stored_results
from fedgrid.grids.arena.definition import BUDGET
from fedgrid.grids.arena.stored_results import StoredResults
from fedgrid.tracking.report.page import PageSection
from fedgrid.tracking.verdicts.page import build_sections, format_section, list_figures
from fedgrid.tracking.verdicts.tables import describe_diverged, describe_names

PAGE = Path(__file__).parent / "evidence" / "arena-results.md"
PICTURES = Path(__file__).with_name("arena")
INTRODUCTION = (
    "# Evidence: results of the arena\n\n"
    "Protocol, and what these numbers cannot say: [the arena](../arena.md). "
    "`python docs/arena.py` writes this page.\n"
)


def main(folders: Sequence[Path]) -> None:
    """Add the rows in the folders to those of the package, and write the page and its figures."""
    add_outcomes(folders)
    stored = stored_results.read_results()
    sections = build_sections(stored.outcomes.values(), BUDGET)
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    for plate in list_figures(sections):
        figures.save(plate.draw(), PICTURES / f"{plate.name}.png")
    PAGE.write_text(format_page(stored, sections), encoding="utf-8")


def add_outcomes(folders: Sequence[Path]) -> None:
    """Add outcomes and settings to those that the package has; later ones replace earlier ones."""
    outcomes, tuned = dict(stored_results.read_results().outcomes), dict(stored_results.read_results().tuned)
    for folder in folders:
        new = stored_results.read_results(folder)
        outcomes |= new.outcomes
        tuned |= new.tuned
    for name, text in stored_results.format_files(outcomes.values(), [*tuned.values()]).items():
        (stored_results.FOLDER / name).write_text(text, encoding="utf-8")


def format_page(stored: StoredResults, sections: Sequence[PageSection]) -> str:
    """Format the whole page."""
    below = "".join(f"\n{format_section(section, f'../{PICTURES.name}/{{}}.png')}" for section in sections)
    return f"{INTRODUCTION}\n{_describe_source(stored)}{below}"


def _describe_source(stored: StoredResults) -> str:
    """Describe the rows of the results, and what made them."""
    outcomes = stored.outcomes.values()
    if not outcomes:
        return f"No rows yet: they are computed in parts. Settings: of {len(stored.tuned)} searches.\n"
    versions = {tuple(sorted(outcome.made_with.items())) for outcome in outcomes}
    made_with = " or ".join(", ".join(f"{name} {value}" for name, value in each) for each in sorted(versions))
    trials = sorted({one.trials for one in stored.tuned.values()})
    datasets = sorted({outcome.dataset for outcome in outcomes})
    families = {outcome.block for outcome in outcomes}
    seeds = sorted({outcome.seed for outcome in outcomes})
    return (
        f"{len(outcomes):,} rows of {', '.join(datasets)}, tuned with {' or '.join(map(str, trials))} trials "
        f"a method: {len(families)} families, seeds {', '.join(map(str, seeds))}. Made with "
        f"{made_with}. {' '.join(filter(None, (describe_diverged(outcomes), describe_names(outcomes))))}\n"
    )


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
