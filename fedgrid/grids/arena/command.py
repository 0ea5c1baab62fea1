"""The command `fedgrid arena`: tunes every method, runs all rows, and prints the verdicts.

Searches and the grid resume as they always do; nothing else is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.methods import has_rows
from fedgrid.grids.arena.stored_results import (
    OUTCOMES,
    SETTINGS,
    StoredResults,
    TunedMethod,
    format_files,
    read_outcomes,
)
from fedgrid.grids.arena.tuning import Advance, tune_methods
from fedgrid.grids.display.text_table import build_text_table
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.execution.watch import LaunchResult
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, Outcome
from fedgrid.tracking.verdicts.tables import (
    build_false_split_table,
    describe_diverged,
    describe_names,
    describe_protocol,
)
from fedgrid.tracking.verdicts.verdict import NoVerdict, Verdict, reach_verdict
from fedgrid.tracking.verdicts.verdict_text import (
    build_verdict_tables,
    format_sentence,
    format_verdict_page,
    verdict_to_dict,
)

if TYPE_CHECKING:
    from fedgrid.tracking.report.page import CaptionedFigure

VERDICT, TABLES, FIGURES = "verdict.md", "tables.tex", "figures"
FILES = (VERDICT, TABLES, OUTCOMES, SETTINGS, f"{FIGURES}/")
FORMATS = ("svg", "png")


def run_arena(arena: Arena, stored: StoredResults, launcher: Launcher, advance: Advance) -> LaunchResult:
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
    for tuned in tune_methods(arena, stored, advance):
        if tuned is None:
            return LaunchResult(stopped=True)
        tuning.append(tuned)
        _show_tuned(tuned, launcher)
    entries = arena.build_entries({(tuned.method, tuned.protocol): tuned.params for tuned in tuning})
    stored_outcomes, missing = stored.split_entries(entries)
    result = launcher.run_unfinished(arena.build_grid(missing)) if missing else LaunchResult()
    outcomes = [*stored_outcomes, *read_outcomes(arena.name, missing, launcher.storage)]
    if arena.is_null:
        _show_false_splits(outcomes, launcher)
    elif entries:
        verdicts, missing_verdicts = compute_verdicts(arena, outcomes)
        notes = [
            *missing_verdicts,
            *_collect_notes(arena, stored, outcomes, len(stored_outcomes), len(entries)),
        ]
        folder = GridFolder(launcher.storage, arena.name)
        _write_files(folder, outcomes, tuning, verdicts, notes, arena)
        _show_verdicts(verdicts, notes, arena.budget, folder, launcher)
    return result


def compute_verdicts(arena: Arena, outcomes: Sequence[Outcome]) -> tuple[list[Verdict], list[str]]:
    """Compute the verdicts on the arena's subjects, and collect why there are not more."""
    questions = [
        (method, question, protocol)
        for method in arena.subjects
        for question in (CLUSTERING, SERVING)
        # Fine-tuning changes tests, not clusters, so that one protocol is enough for clustering.
        for protocol in (PROTOCOLS if question is SERVING else PROTOCOLS[:1])
    ]
    verdicts: list[Verdict] = []
    reasons: dict[str, None] = {}
    for method, question, protocol in questions:
        try:
            verdicts.append(reach_verdict(outcomes, method, question, protocol))
        except NoVerdict as reason:
            within = "" if question is CLUSTERING else f", {describe_protocol(protocol, arena.budget)}"
            reasons[f"no verdict on {question.name}{within}: {reason}"] = None
    return verdicts, [*reasons]


def _show_tuned(tuned: TunedMethod, launcher: Launcher) -> None:
    """Show the settings that a search has selected for a method."""
    launcher.print_event("tuned", **asdict(tuned))
    # 0 stands for settings without a search, of which there is nothing to show.
    if tuned.validation:
        settings = ", ".join(f"{key} {value}" for key, value in tuned.params.items()) or "the defaults"
        launcher.print_lines(
            f"tuned {tuned.method} ({tuned.protocol}): trial {tuned.trial} of {tuned.trials}, validation "
            f"accuracy {tuned.validation:.3f}: {settings}"
        )


def _collect_notes(
    arena: Arena, stored: StoredResults, outcomes: Sequence[Outcome], num_stored: int, rows: int
) -> list[str]:
    """Collect the notes below the verdicts: what is left out, stored, missing or diverged."""
    lost = stored.explain_losses(arena.dataset_in_files, arena.judged_seeds, arena.trials)
    notes = [*arena.exclusion_notes, *lost]
    if num_stored:
        made = {tuple(sorted(outcome.made_with.items())) for outcome in stored.outcomes.values()}
        by = " or ".join(
            ", ".join(f"{name} {value}" for name, value in versions) for versions in sorted(made)
        )
        notes.append(
            f"{num_stored} of {rows} rows are results that fedgrid keeps ({by}); --check 5 computes five of "
            "them again"
        )
    if len(outcomes) < rows:
        notes.append(f"{rows - len(outcomes)} of {rows} rows have no result yet and are in no verdict")
    notes += filter(None, (describe_diverged(outcomes), describe_names(outcomes)))
    for method in arena.competitors:
        if not has_rows(method, "fine-tuned"):
            notes.append(f"{method} lacks fine_tune, which FedOptSettings has: no verdict with fine-tuning")
    return notes


def _show_false_splits(outcomes: Sequence[Outcome], launcher: Launcher) -> None:
    """Show how often each method splits clients without groups."""
    table = build_false_split_table(outcomes)
    rows = [{"method": row.name, "false_splits": row.cells[0].text} for row in table.rows]
    launcher.print_event("arena", null=rows)
    if not launcher.options.as_json:
        launcher.console.print(build_text_table(table))


def _show_verdicts(
    verdicts: Sequence[Verdict], notes: Sequence[str], budget: int, folder: GridFolder, launcher: Launcher
) -> None:
    """Show verdicts and notes, and where the files are."""
    console = launcher.console
    if not launcher.options.as_json:
        for table in build_verdict_tables(verdicts, budget):
            console.print(build_text_table(table))
            console.print()
    for one in verdicts:
        launcher.print_event("verdict", **verdict_to_dict(one, budget))
        launcher.print_lines(format_sentence(one, budget))
    launcher.print_event("arena", notes=notes, folder=str(folder.path))
    launcher.print_lines(*(f"note: {note}" for note in notes))
    launcher.print_lines(f"Written to {folder.path} ({', '.join(FILES)})")


def _write_files(
    folder: GridFolder,
    outcomes: Sequence[Outcome],
    tuned: Sequence[TunedMethod],
    verdicts: Sequence[Verdict],
    notes: Sequence[str],
    arena: Arena,
) -> None:
    """Write all files; figures only if the outcomes have changed.

    Args:
        folder: Folder of the arena's grid.
        outcomes: Outcomes of all rows.
        tuned: Settings of all methods.
        verdicts: Verdicts on the subjects.
        notes: Notes below them.
        arena: The arena.

    Raises:
        RunError: They cannot be written.
    """
    # They import matplotlib, which takes a second.
    from fedgrid.tracking.verdicts.page import build_sections, format_latex, format_section, list_figures

    texts = format_files(outcomes, tuned)
    sections = build_sections(outcomes, arena.budget, arena.subjects)
    plates = tuple(list_figures(sections))
    # Drawing takes most of the time of a repeated command. The outcomes are written after the figures, so
    # that a crash in between draws them again.
    if not _is_drawn(folder, texts[OUTCOMES], plates):
        _draw_figures(folder, plates)
    for name, text in texts.items():
        folder.write_file(name, text)
    below = "\n".join(format_section(section, f"{FIGURES}/{{}}.svg") for section in sections)
    folder.write_file(TABLES, format_latex(build_verdict_tables(verdicts, arena.budget), sections))
    folder.write_file(VERDICT, format_verdict_page(verdicts, arena.budget, notes, below))


def _is_drawn(folder: GridFolder, outcomes: str, plates: Sequence[CaptionedFigure]) -> bool:
    """Check whether the figures exist and were drawn from these outcomes."""
    path = folder.path / OUTCOMES
    drawn = (folder.path / FIGURES / f"{plate.name}.{kind}" for plate in plates for kind in FORMATS)
    return path.is_file() and path.read_bytes() == outcomes.encode() and all(file.is_file() for file in drawn)


def _draw_figures(folder: GridFolder, plates: Sequence[CaptionedFigure]) -> None:
    """Draw each figure in all formats."""
    from fedgrid.tracking.figures.style import encode_figure

    for plate in plates:
        figure = plate.draw()
        for kind in FORMATS:
            file = f"{plate.name}.{kind}"
            folder.write_file(f"{FIGURES}/{file}", encode_figure(figure, file))
