"""The command `fedgrid arena`: tunes every method, runs all rows, and prints the verdicts.

Searches and the grid resume as they always do; nothing else is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.kept import OUTCOMES, SETTINGS, KeptResults, TunedMethod, read_outcomes, texts_of
from fedgrid.grids.arena.methods import plays
from fedgrid.grids.arena.tuning import Advance, tune
from fedgrid.grids.display.text_table import page_table
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.execution.watch import LaunchResult
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, Outcome
from fedgrid.tracking.verdicts.tables import (
    FAMILIES_OF_A_KIND,
    diverged_in,
    false_split_table,
    names_in,
    words_of,
)
from fedgrid.tracking.verdicts.verdict import NoVerdict, Verdict, verdict
from fedgrid.tracking.verdicts.words import as_dict, sentence, tables_on, verdict_page

if TYPE_CHECKING:
    from fedgrid.tracking.report.page import Plate

VERDICT, TABLES, FIGURES = "verdict.md", "tables.tex", "figures"
FILES = (VERDICT, TABLES, OUTCOMES, SETTINGS, f"{FIGURES}/")
FORMATS = ("svg", "png")


def run_arena(arena: Arena, stored: KeptResults, launcher: Launcher, advance: Advance) -> LaunchResult:
    """Compute what is not stored, write outcomes, settings and verdicts to the grid's folder, and show them.

    An arena that only measures false splits shows those instead.

    Args:
        arena: The arena.
        stored: Results that come with fedgrid.
        launcher: Runs the grid and shows results.
        advance: Runs a search as far as it goes.

    Raises:
        ConfigError: Settings are wrong; nothing is started or written.
        DataError: Images are missing; nothing is started or written.
        RunError: A search or the grid as a whole cannot go on.
    """
    tuning = []
    for tuned in tune(arena, stored, advance):
        if tuned is None:
            return LaunchResult(stopped=True)
        tuning.append(tuned)
        _show_tuned(tuned, launcher)
    entries = arena.entries({(tuned.method, tuned.protocol): tuned.params for tuned in tuning})
    kept, missing = stored.divide(entries)
    result = launcher.run(arena.grid(missing)) if missing else LaunchResult()
    outcomes = [*kept, *read_outcomes(arena.name, missing, launcher.storage)]
    if arena.is_null:
        _show_false_splits(outcomes, launcher)
    elif entries:
        verdicts, missing_verdicts = verdicts_on(arena, outcomes)
        notes = [*missing_verdicts, *_notes(arena, stored, outcomes, len(kept), len(entries))]
        folder = GridFolder(launcher.storage, arena.name)
        _write(folder, outcomes, tuning, verdicts, notes, arena.budget)
        _show(verdicts, notes, arena.budget, folder, launcher)
    return result


def verdicts_on(arena: Arena, outcomes: Sequence[Outcome]) -> tuple[list[Verdict], list[str]]:
    """Compute the verdicts on the arena's subjects, and collect why there are not more."""
    asked = [
        (method, question, protocol)
        for method in arena.subjects
        for question in (CLUSTERING, SERVING)
        # Fine-tuning changes tests, not clusters, so that one protocol is enough for clustering.
        for protocol in (PROTOCOLS if question is SERVING else PROTOCOLS[:1])
    ]
    verdicts: list[Verdict] = []
    reasons: dict[str, None] = {}
    for method, question, protocol in asked:
        try:
            verdicts.append(verdict(outcomes, method, question, protocol))
        except NoVerdict as reason:
            within = "" if question is CLUSTERING else f", {words_of(protocol, arena.budget)}"
            reasons[f"no verdict on {question.name}{within}: {reason}"] = None
    return verdicts, [*reasons]


def _show_tuned(tuned: TunedMethod, launcher: Launcher) -> None:
    """Show the settings that a search has selected for a method."""
    launcher.event("tuned", **asdict(tuned))
    # 0 stands for settings without a search, of which there is nothing to show.
    if tuned.validation:
        settings = ", ".join(f"{key} {value}" for key, value in tuned.params.items()) or "the defaults"
        launcher.say(
            f"tuned {tuned.method} ({tuned.protocol}): trial {tuned.trial} of {tuned.trials}, validation "
            f"accuracy {tuned.validation:.3f}: {settings}"
        )


def _notes(
    arena: Arena, stored: KeptResults, outcomes: Sequence[Outcome], num_kept: int, rows: int
) -> list[str]:
    """Collect the notes below the verdicts: what is left out, stored, missing or diverged."""
    lost = stored.lost_by(arena.dataset_in_files, arena.seeds_used, arena.trials)
    notes = [*arena.left_out, *lost, FAMILIES_OF_A_KIND]
    if num_kept:
        made = {tuple(sorted(outcome.made_with.items())) for outcome in stored.outcomes.values()}
        by = " or ".join(
            ", ".join(f"{name} {value}" for name, value in versions) for versions in sorted(made)
        )
        notes.append(
            f"{num_kept} of {rows} rows are results that fedgrid keeps ({by}); --check 5 computes five of "
            "them again"
        )
    if len(outcomes) < rows:
        notes.append(f"{rows - len(outcomes)} of {rows} rows have no result yet and are in no verdict")
    notes += filter(None, (diverged_in(outcomes), names_in(outcomes)))
    for method in arena.competitors:
        if not plays(method, "fine-tuned"):
            notes.append(f"{method} lacks fine_tune, which FedOptSettings has: no verdict with fine-tuning")
    return notes


def _show_false_splits(outcomes: Sequence[Outcome], launcher: Launcher) -> None:
    """Show how often each method splits clients without groups."""
    table = false_split_table(outcomes)
    rows = [{"method": row.name, "false_splits": row.cells[0].text} for row in table.rows]
    launcher.event("arena", null=rows)
    if not launcher.options.as_json:
        launcher.console.print(page_table(table))


def _show(
    verdicts: Sequence[Verdict], notes: Sequence[str], budget: int, folder: GridFolder, launcher: Launcher
) -> None:
    """Show verdicts and notes, and where the files are."""
    console = launcher.console
    if not launcher.options.as_json:
        for table in tables_on(verdicts, budget):
            console.print(page_table(table))
            console.print()
    for one in verdicts:
        launcher.event("verdict", **as_dict(one, budget))
        launcher.say(sentence(one, budget))
    launcher.event("arena", notes=notes, folder=str(folder.path))
    launcher.say(*(f"note: {note}" for note in notes))
    launcher.say(f"Written to {folder.path} ({', '.join(FILES)})")


def _write(
    folder: GridFolder,
    outcomes: Sequence[Outcome],
    tuned: Sequence[TunedMethod],
    verdicts: Sequence[Verdict],
    notes: Sequence[str],
    budget: int,
) -> None:
    """Write all files; figures only if the outcomes have changed.

    Args:
        folder: Folder of the arena's grid.
        outcomes: Outcomes of all rows.
        tuned: Settings of all methods.
        verdicts: Verdicts on the subjects.
        notes: Notes below them.
        budget: Steps of fine-tuning.

    Raises:
        RunError: They cannot be written.
    """
    # They import matplotlib, which takes a second.
    from fedgrid.tracking.verdicts.page import latex, plates_of, results, section_text

    texts = texts_of(outcomes, tuned)
    sections = results(outcomes, budget)
    plates = tuple(plates_of(sections))
    # Drawing takes most of the time of a repeated command. The outcomes are written after the figures, so
    # that a crash in between draws them again.
    if not _is_drawn(folder, texts[OUTCOMES], plates):
        _draw(folder, plates)
    for name, text in texts.items():
        folder.write(name, text)
    below = "\n".join(section_text(section, f"{FIGURES}/{{}}.svg") for section in sections)
    folder.write(TABLES, latex(tables_on(verdicts, budget), sections))
    folder.write(VERDICT, verdict_page(verdicts, budget, notes, below))


def _is_drawn(folder: GridFolder, outcomes: str, plates: Sequence[Plate]) -> bool:
    """Check whether the figures exist and were drawn from these outcomes."""
    path = folder.path / OUTCOMES
    drawn = (folder.path / FIGURES / f"{plate.name}.{kind}" for plate in plates for kind in FORMATS)
    return path.is_file() and path.read_bytes() == outcomes.encode() and all(file.is_file() for file in drawn)


def _draw(folder: GridFolder, plates: Sequence[Plate]) -> None:
    """Draw each figure in all formats."""
    from fedgrid.tracking.figures.style import encode_figure

    for plate in plates:
        figure = plate.draw()
        for kind in FORMATS:
            file = f"{plate.name}.{kind}"
            folder.write(f"{FIGURES}/{file}", encode_figure(figure, file))
