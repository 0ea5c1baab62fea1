"""Runs of a grid as rows: their names and axes, state, scores and times."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from fedgrid.algorithms import registry
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.dealing.kinds import list_idle_options
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.run.run_folder import build_folder_path, find_last_round
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.axes import read_where
from fedgrid.grids.presets.axis_keys import (
    SPLIT,
    find_variant_settings,
    format_variant,
    is_setting,
    list_axis_keys,
    list_axis_pairs,
    read_json_values,
)
from fedgrid.grids.results.archive_models import is_archived
from fedgrid.grids.results.axes import build_algorithm_names, find_further_axes, format_run_name
from fedgrid.grids.results.grid_folder import SUPERSEDED
from fedgrid.grids.results.outcome import read_scores, read_state
from fedgrid.grids.results.times import Times, read_times
from fedgrid.tracking.names import names_line
from fedgrid.tracking.scoring.run import (
    FAILED,
    FINISHED,
    Run,
    format_early_stops,
    format_validation_scores,
    select_runs,
)
from fedgrid.tracking.scoring.study import replace_special_characters
from fedgrid.tracking.training_line import describe_training


def select_where(runs: Sequence[Run], text: str) -> list[Run]:
    """Select the runs that meet the conditions of a `--where`.

    Raises:
        ConfigError: for another text, or a column or value that no run has.
    """
    conditions = read_where(text)
    try:
        return select_runs(runs, conditions)
    except ValueError as error:
        raise ConfigError(f"--where {text}: {error}") from error


def describe_configs(
    configs: Sequence[RunConfig], storage: Storage, old: Collection[RunConfig] = ()
) -> tuple[Run, ...]:
    """Describe runs of a grid without their results, with names that tell them apart.

    Runs in `old` are superseded; the names of their algorithms keep them out of the means of the others. No
    file is read, but the mark of a run that may have stopped early.
    """
    axes, settings, keys = find_further_axes(configs), find_variant_settings(configs), list_axis_keys(configs)
    naming = tuple(dict.fromkeys((*axes, *settings)))
    superseded = {config.run_id for config in old}
    # Thousands of runs share a few algorithms, whose settings are read once.
    algorithms = {repr(config.algorithm): config for config in configs}
    settings_by_algorithm = {
        text: read_json_values(config, filter(is_setting, keys)) for text, config in algorithms.items()
    }
    others = [key for key in keys if not is_setting(key)]

    def describe_run(config: RunConfig, algorithm: str) -> Run:
        """Describe one run under the name of its algorithm."""
        method = config.algorithm.name
        is_old = config.run_id in superseded
        folder = build_folder_path(storage.root, config)
        return Run(
            run_id=config.run_id,
            name=format_run_name(config, naming),
            folder=folder,
            # Names of files and anchors are made from it.
            dataset=replace_special_characters(config.short_dataset),
            split=config.split.kind,
            clients=config.clients,
            algorithm=f"{algorithm} ({SUPERSEDED})" if is_old else algorithm,
            published=registry.find_paper_row(method),
            seed=config.seed,
            rounds=find_last_round(folder, config),
            method=method,
            axes=list_axis_pairs(config, axes),
            variant=format_variant(config, settings) or None,
            is_superseded=is_old,
            place=config.scenario,
            values=read_json_values(config, others) | settings_by_algorithm[repr(config.algorithm)],
            idle=frozenset(f"{SPLIT}.{option}" for option in list_idle_options(config.split.kind)),
            is_archived=is_archived(config),
            is_reference=registry.is_reference(method),
        )

    return tuple(map(describe_run, configs, build_algorithm_names(configs, axes)))


def read_run(run: Run, config: RunConfig, storage: Storage) -> Run:
    """Add a run's state, and if it is finished its scores and times.

    Raises:
        OtherVersion: another fedgrid wrote it.
    """
    # The scores are read only after the check of all files: those of a damaged run are not shown.
    status, cause, times = read_state(storage, config)
    if status != FINISHED:
        return replace(run, state=status, cause=cause)
    scores, rounds = read_scores(run.folder, run.run_id), find_last_round(run.folder, config)
    return replace(run, state=status, scores=scores, times=asdict(times), rounds=rounds)


def read_runs(
    configs: Sequence[RunConfig], storage: Storage, old: Collection[RunConfig] = ()
) -> tuple[Run, ...]:
    """Describe runs of a grid as `describe_configs` does, with what `read_run` adds.

    Raises:
        OtherVersion: another fedgrid wrote one of them.
    """
    described = describe_configs(configs, storage, old)
    return tuple(read_run(run, config, storage) for run, config in zip(described, configs, strict=True))


def summarise_runs(runs: Sequence[Run]) -> list[str]:
    """Summarise runs of a grid in lines: their training and scores, and the papers' names of algorithms."""
    names = {run.algorithm: run.published for run in runs}
    trained = describe_training([run.keys for run in runs])
    lines = trained, format_validation_scores(runs), format_early_stops(runs), names_line(names)
    return [line for line in lines if line]


def finished_run(config: RunConfig, storage: Storage) -> Run:
    """Describe a run that has just ended; its files are not checked.

    It has no scores if these are not visible here yet, as for seconds on a shared disk.

    Raises:
        DamagedFile: its scores or times cannot be read.
    """
    [run] = describe_configs([config], storage)
    scores: Mapping[str, Any] = {}
    with suppress(FileNotFoundError):
        # NFS remembers that a file was missing until its folder is read again.
        os.listdir(run.folder)
        scores = read_scores(run.folder, run.run_id)
    return replace(run, state=FINISHED, scores=scores, times=asdict(read_times(run.folder)))


def failed_run(config: RunConfig, storage: Storage, cause: str) -> Run:
    """Describe a run that has failed after all retries."""
    [run] = describe_configs([config], storage)
    try:
        times = read_times(run.folder)
    except (DamagedFile, UnreadableFile) as error:
        # The failure stays the first cause: damaged times are often its consequence.
        times, cause = Times(), f"{cause}; {error}"
    return replace(run, state=FAILED, cause=cause, times=asdict(times))
