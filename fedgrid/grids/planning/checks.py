"""Checks before a grid starts: images, splits, the storage, and what its runs were made with so far.

They store nothing but downloads.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.engine.federation.before_training.setup import deal_images
from fedgrid.engine.federation.data.names import has_target
from fedgrid.engine.federation.dealing.holdouts import build_server_sets
from fedgrid.engine.federation.errors import ConfigError, DataError, unknown_name_error
from fedgrid.engine.runtime.configuration.conditions import is_own_model
from fedgrid.engine.runtime.data.datasets import find_dataset, find_dataset_digest, is_here, load_dataset
from fedgrid.engine.runtime.data.partition_files import add_partition
from fedgrid.engine.runtime.integrity.made_with import (
    ACCEPT,
    IMAGES,
    check_images,
    collect_made_with,
    describe_differences,
    load_parts,
)
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.run.shorter_runs import find_shorter_run
from fedgrid.engine.runtime.storage.format import DamagedFile, describe_next_step
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.planning.images import estimate_images, find_image_notes, find_split_notes, number_repeats
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.results.import_marks import check_imported, describe_imports, read_import_grid
from fedgrid.grids.results.outcome import find_damage

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.data.images import Pair
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.display.steps import StepDisplay
    from fedgrid.grids.planning.options import LaunchOptions


def check_data(runs: Sequence[RunConfig], data_dir: Path, steps: StepDisplay) -> None:
    """Download missing images and draw every split once, so that errors appear before the first run.

    Warn of what may surprise in the user's own images and splits.

    Args:
        runs: the runs.
        data_dir: where data sets are, or are downloaded to.
        steps: shows what is checked; downloads show their own progress.

    Raises:
        DataError: if images are missing, damaged, or cannot be downloaded.
        ConfigError: if the data set is too small for a split.
    """
    pairs: dict[str, Pair] = {}
    repeats: dict[str, NDArray[np.int64] | None] = {}
    for name in dict.fromkeys(run.dataset for run in runs):
        pool, server = load_dataset(name, data_dir)
        for note in find_image_notes(name, (pool, server), data_dir):
            warn(note)
        # Only labels and subjects are needed to draw splits. The pixels of all data sets together may not fit
        # in memory.
        pairs[name], repeats[name] = (pool.without_pixels(), server), number_repeats(name, pool)
    # Runs that differ only in algorithm or training have the same split, which is drawn once.
    splits = {(run.scenario, run.seed, run.split): run for run in runs}
    steps.begin_step("Checking the splits")
    for number, run in enumerate(splits.values()):
        steps.show_count(number, len(splits))
        # Refuses a number of clients for which there are too few images, before images are dealt to them.
        estimate_images(run, find_dataset(run.dataset, data_dir))
        pair = add_partition(pairs[run.dataset], run.split)
        partition = deal_images(run, pair, find_dataset(run.dataset, data_dir).num_classes)
        for note in find_split_notes(run, repeats[run.dataset], pair[0].subjects, partition):
            warn(note)
        build_server_sets(pairs[run.dataset][1], run.split, run.root_seed)


def find_output_notes(runs: Sequence[RunConfig], data_dir: Path) -> list[str]:
    """Describe in one line each own model that returns probabilities where logits are expected."""
    notes: dict[str | None, None] = {}
    for run in runs:
        if is_own_model(run.model) and not has_target(run.dataset):
            from fedgrid.engine.runtime.configuration.own_models import (
                explain_probabilities,  # Imports torch.
            )

            dataset = find_dataset(run.dataset, data_dir)
            model_facts = run.model, dataset.inputs, dataset.num_classes
            notes[explain_probabilities(*model_facts, run.plugin_digests)] = None
    return [note for note in notes if note]


def check_stored(
    todo: Sequence[RunConfig], done: Sequence[RunConfig], storage: Storage, options: LaunchOptions
) -> None:
    """Check what a storage contains of runs to do and of finished ones, for a launch and its dry run.

    Warn of damaged files, and of changes that are accepted.

    Args:
        todo: runs to execute.
        done: runs that are finished.
        storage: where they are.
        options: how they are launched.

    Raises:
        ConfigError: there is no such grid as `imported` names, the storage has a run with the same id and
            another configuration, or as `check_damaged` and `check_origins`.
        DataError: the images of a run have changed.
    """
    for name in options.imported:
        if name not in (grids := list_grids(storage)):
            raise ConfigError(
                f"--imported {name}: {unknown_name_error('grid', name, grids or ['none in the storage'])}"
            )
    if todo:
        storage.check_rights()
    # A launch that computes nothing cannot add rounds to a run of another configuration.
    for run in (*done, *todo) if todo else ():
        RunFolder(storage, run).check_config()
    # What is deleted first may be damaged, or made with anything.
    if options.fresh:
        return
    check_damaged(todo, storage)
    accept, runs = options.accept_changes, [*done, *todo]
    for note in check_origins(runs, storage, options.data_dir, accept=accept, imported=options.imported):
        warn(f"accepted: {note}")


def check_damaged(runs: Sequence[RunConfig], storage: Storage) -> None:
    """Warn of unfinished runs with damaged files, which a launch sets aside.

    Raises:
        ConfigError: one is of another configuration, or was imported: it is not computed here.
    """
    for run in runs:
        folder = build_folder_path(storage.root, run)
        if folder.is_dir() and (grid := read_import_grid(folder)) is not None:
            raise ConfigError(
                f"{run.name} was imported as {grid}, and its files are damaged or not all there: import its "
                "bundle again, or --fresh computes it"
            )
        if damaged := find_damage(storage, run):
            RunFolder(storage, run).check_config()
            warn(describe_next_step(damaged, f"it is set aside, and {run.name} is run again"))


def check_origins(
    runs: Sequence[RunConfig],
    storage: Storage,
    data_dir: Path,
    *,
    accept: bool = False,
    imported: Collection[str] | None = (),
) -> list[str]:
    """Compare what runs were made with so far with the images, code and versions of this process.

        Images that are not here are not checked, nor are processors: only a run's own machines know theirs.

    Images that are not on this machine are not checked, nor are processors: only a run's own machines know
    theirs.

    Args:
        runs: the runs; those without files are skipped.
        storage: where they are.
        data_dir: where data sets are.
        accept: whether changes of code and versions are accepted; default False.
        imported: grids whose imported runs may be used; None: all; default: none.

    Returns:
        What has changed and is accepted, a line for each change.

    Raises:
        DataError: the images of a run have changed.
        ConfigError: code or versions have changed, and `accept` is false; or runs were imported, and not
            allowed.
        OtherVersion: a newer fedgrid made them.
    """
    folders = [build_folder_path(storage.root, run) for run in runs]
    if imported is not None:
        check_imported(folders, imported)
    digests: dict[str, str | None] = {}
    changed: dict[str, list[str]] = {}
    for run in runs:
        # A damaged file is reported where the run is read or opened.
        with suppress(DamagedFile):
            for difference in _find_differences(run, storage, data_dir, digests):
                changed.setdefault(difference, []).append(run.name)
    notes = [
        f"{difference}: {names[0] if len(names) == 1 else f'{len(names)} runs, the first {names[0]}'}"
        for difference, names in changed.items()
    ]
    if notes and not accept:
        raise ConfigError(f"{'; '.join(notes)}; {ACCEPT}")
    return [*notes, *(describe_imports(folders) if imported else [])]


def count_rounds_left(
    runs: Sequence[RunConfig], storage: Storage, options: LaunchOptions
) -> tuple[list[tuple[RunConfig, int]], int]:
    """Count the rounds that each run still has to compute, and the rounds reused from shorter runs.

    Whether processors are the same is not checked: only the runs' machines know theirs.

    Args:
        runs: the runs.
        storage: where they are.
        options: how they are launched.

    Returns:
        Each run with its number of rounds left, and how many rounds all runs together reuse from finished
            runs that differ only in having fewer rounds.
    """
    takes_rounds = options.cache is not None and not options.fresh
    left, reused = [], 0
    digests: dict[str, str | None] = {}
    for run in runs:
        folder = RunFolder(storage, run)
        done = run.training.rounds if folder.is_done else folder.rounds_done
        if not done and takes_rounds and (shorter := find_shorter_run(run, storage)) is not None:
            with suppress(DamagedFile, DataError):
                # A launch does not reuse rounds that were made with other code, so the plan must not count
                # them.
                if not _find_differences(shorter[0], storage, options.data_dir, digests):
                    done = shorter[1]
                    reused += done
        left.append((run, run.training.rounds - done))
    return left, reused


def _find_differences(
    run: RunConfig, storage: Storage, data_dir: Path, digests: dict[str, str | None]
) -> list[str]:
    """Describe what has changed since a run was made; `digests` caches those of data sets."""
    parts = load_parts(build_folder_path(storage.root, run))
    if not parts:
        return []
    # The last part alone: changes between earlier parts were accepted when they happened.
    before = parts[-1].made_with
    if run.dataset not in digests:
        here = is_here(run.dataset, data_dir)
        digests[run.dataset] = find_dataset_digest(run.dataset, data_dir) if here else None
    now = collect_made_with(build_algorithm(run), digests[run.dataset] or before.get(IMAGES, ""))
    check_images(run.name, before, now)
    return describe_differences(before, now)
