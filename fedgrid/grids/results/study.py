"""A grid as a study, for reports of the command line, a notebook or a script.

from fedgrid.grids.results.study import load
from fedgrid.tracking import figures

figures.segments(load("paper").where(dataset="mnist")).savefig("segments.pdf")
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from fedgrid.algorithms import registry
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.dealing.kinds import idle_options
from fedgrid.engine.runtime.configuration.idle_settings import idle_lines
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.atomic import ASIDE
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.axis_keys import SPLIT, axis_keys, pairs_of
from fedgrid.grids.results.archived import is_archived
from fedgrid.grids.results.asked import SUPERSEDED, superseded_words
from fedgrid.grids.results.axes import further_axes, name_of, naming_keys, titles
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.model_sizes import model_bytes
from fedgrid.grids.results.origin_notes import origin_notes
from fedgrid.grids.results.outcome import DAMAGED, is_finished, read_scores, state
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.run import Run, load_result, plain_title
from fedgrid.tracking.scoring.study import Study, plain


def load(
    grid: str,
    storage: Storage | str = "runs",
    *,
    sizes: bool = False,
    superseded: bool = False,
    seen: Callable[[int, int], object] = lambda done, total: None,
) -> Study:
    """Read the results of a grid that was launched or imported: the records of each run, by column.

    Args:
        grid: its name.
        storage: the storage that has it.
        sizes: give runs the size of their model, for which it is built.
        superseded: add the runs that the grid's file no longer asks for; their algorithm's title says so.
        seen: called with the number of runs that are read, and of all.

    Raises:
        ConfigError: if there is no such grid.
        DataError: `sizes` are asked for, and images of a `folder:` or `npz:` data set cannot be read.
    """
    store = Storage.of(storage) if isinstance(storage, str) else storage
    store.pull_marks()
    current, old = GridFolder(store, grid).divided()
    configs = (*current, *old) if superseded else current
    runs = describe(configs, store)
    if sizes:
        runs = tuple(
            run if run.is_archived else replace(run, model_bytes=model_bytes(config))
            for run, config in zip(runs, configs, strict=True)
        )
    if superseded:
        runs = _marked(runs, {config.run_id for config in old})
    read = []
    for number, (config, run) in enumerate(zip(configs, runs, strict=True)):
        seen(number, len(configs))
        read.append(_load_run(run, config, store))
    folders = {run.name: run.folder for run in read if run.is_finished}
    algorithms = {run.name: config.algorithm for run, config in zip(runs, configs, strict=True)}
    notes = origin_notes(folders, algorithms)
    left_out = 0 if superseded else len(old)
    said = (f"{superseded_words(left_out)}.",) if left_out else ()
    return Study(grid, tuple(read), (*said, *idle_lines(configs), *notes), left_out)


def _load_run(run: Run, config: RunConfig, storage: Storage) -> Run:
    """Return a run with its result, or with what it lacks."""
    if is_finished(storage, config):
        storage.pull(run.folder.name, skip=("state-", ASIDE))
        # At a URI the records have only come now.
        if is_finished(storage, config):
            try:
                return result_of(run)
            except RecordsError as error:
                return replace(run, lacking=str(error))
    return replace(run, lacking=_how_far(storage, config))


def describe(configs: Sequence[RunConfig], storage: Storage) -> tuple[Run, ...]:
    """Return what a report needs to know of each run, with names for its algorithm that tell it apart."""
    axes, keys = further_axes(configs), naming_keys(configs)
    every = axis_keys(configs)
    return tuple(
        Run(
            run_id=config.run_id,
            name=name_of(config, keys),
            folder=folder_of(storage.root, config),
            dataset=plain(config.short_dataset),
            split=config.split.kind,
            clients=config.clients,
            algorithm=title,
            published=plain_title(registry.title(config.algorithm["name"])),
            seed=config.seed,
            rounds=config.training.rounds,
            method=registry.title(config.algorithm["name"]),
            axes=pairs_of(config, axes),
            keys=dict(pairs_of(config, every)),
            idle=frozenset(f"{SPLIT}.{option}" for option in idle_options(config.split.kind)),
            is_archived=is_archived(config),
            is_reference=registry.is_reference(config.algorithm["name"]),
        )
        for config, title in zip(configs, titles(configs, axes), strict=True)
    )


def _marked(runs: Iterable[Run], superseded: Collection[str]) -> tuple[Run, ...]:
    """Return the runs, with titles that keep superseded ones out of the means of the others."""
    return tuple(
        replace(run, algorithm=f"{run.algorithm} ({SUPERSEDED})") if run.run_id in superseded else run
        for run in runs
    )


def result_of(run: Run) -> Run:
    """Return a finished run with its result: of the scores in its folder, and its records.

    Raises:
        DamagedFile: its scores are damaged.
        RecordsError: it has no records.
    """
    return load_result(run, read_scores(run.folder, run.run_id))


def readable_results(runs: Iterable[Run], left_out: Callable[[RecordsError], object]) -> dict[str, Run]:
    """Return the results of finished runs by id; `left_out` is told why others have none."""
    results = {}
    for run in {run.run_id: run for run in runs}.values():
        try:
            results[run.run_id] = result_of(run)
        except RecordsError as error:
            left_out(error)
    return results


def _how_far(storage: Storage, config: RunConfig) -> str:
    how, why = state(storage, config)
    if how == DAMAGED:
        return f"{why}; `fedgrid run` repeats it"
    return f"{how}: {why}" if why else how
