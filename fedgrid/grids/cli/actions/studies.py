"""What a report or a table is asked for: the runs of a grid, and a style."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib import style

from fedgrid.engine.federation.errors import ConfigError, hint
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.results.study import load
from fedgrid.tracking.figures.style import style_context
from fedgrid.tracking.scoring.run import select
from fedgrid.tracking.scoring.selection import read_conditions
from fedgrid.tracking.scoring.study import Study, slug


def read_study(
    name: str, storage: Storage, steps: Steps, *, sizes: bool = False, superseded: bool = False
) -> Study:
    """Return the runs of a grid with their results; it has some.

    Raises:
        ConfigError: if there is no such grid, or none of its runs is finished.
        RunError: if a file of the grid is damaged.
    """
    steps.say(f"Reading the runs of {name}")
    study = load(name, storage, sizes=sizes, superseded=superseded, seen=steps.count)
    if not study.finished:
        raise ConfigError(
            f"none of the {len(study.runs)} runs of {name} is finished; "
            f"`{command(storage, 'status', name)}` shows their progress"
        )
    return study


def filtered(study: Study, filters: Sequence[str]) -> Study:
    """Return the study of the runs that pass all filters, as of `fedgrid run`.

    Raises:
        ConfigError: for another text, an axis or value that no run has, or if no run is left.
    """
    for text in filters:
        try:
            study = study.only(select(study.runs, read_conditions(text)))
        except ValueError as error:
            raise ConfigError(f"--filter {text}: {error}") from error
        if not study.finished:
            raise ConfigError(f"--filter {text}: no finished run is left")
        study = replace(study, notes=(f"Only runs with {text}.", *study.notes))
    return study


def names_in(option: str, given: str | None) -> list[str]:
    """Return what an option names, with commas between the names; nothing of one that is not given.

    Raises:
        ConfigError: it names none.
    """
    names = [name.strip() for name in (given or "").split(",") if name.strip()]
    if given is not None and not names:
        raise ConfigError(f"{option} names none: expected names with commas between them")
    return names


def folder_name(kind: str, asked: Sequence[str]) -> str:
    """Return the folder of a page; one of what was `asked` for does not replace that of everything."""
    return "-".join((kind, *map(slug, asked)))


def own_styles(name: str | None) -> list[str]:
    """Return the style of matplotlib's that was asked for, as the only one of a list.

    Raises:
        ConfigError: there is no style of that name, and no such file.
    """
    if name is None:
        return []
    try:
        with style_context(name):
            return [name]
    except OSError as error:
        raise ConfigError(
            f"--style {name}: no such style; {hint(name, style.available)}expected a file (.mplstyle, "
            f"matplotlibrc) or one of {', '.join(style.available)}"
        ) from error
