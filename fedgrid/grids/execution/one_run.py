"""Runs and grids for notebooks and scripts. A single run needs no Ray and no MLflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedgrid.arguments import checked
from fedgrid.engine.federation.configuration.run_config import PLUGINS, RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.configuration.idle_settings import check_idle, check_keys
from fedgrid.engine.runtime.data.datasets import default_data_dir, find, image_folder
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.planning.checks import check_origins
from fedgrid.grids.presets.load import load_grid, plain_values
from fedgrid.grids.presets.read_preset import dotted_key_error
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.study import load, load_run
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study


@checked(config="fedgrid.run_grid runs a preset, a file or several runs")
def run(
    config: RunConfig | Mapping[str, Any],
    *,
    storage: Storage | Path | str = "runs",
    data_dir: Path | str | None = None,
    plugins: Iterable[Path | str] = (),
    accept_changes: bool = False,
) -> Run:
    """Run one configuration in this process and return its result.

    The run is kept under `storage`, where `fedgrid run` keeps its runs too: a finished run is read and not
    repeated, an interrupted one goes on after its last round.

    Args:
        config: keys of a run as in a preset, at least those that differ from the defaults:
            `{"dataset": "digits", "algorithm": "ocfl-hdbscan", "training": {"rounds": 15}}`.
        storage: a folder, or a URI such as `s3://bucket/runs`.
        data_dir: where images are kept; None is the user's cache.
        plugins: files with algorithms, clusterers or models of your own, in use from now on. Files of earlier
            calls are no longer in use. A changed file is loaded again and makes another run.
        accept_changes: whether a run that was made with other code, versions or machines is taken.

    Raises:
        ConfigError: for a key, name or value that does not exist, or changes that are not accepted; nothing
            was started.
        DataError: if the images are missing or damaged, or others than the run was made with.
        RunError: if the run cannot go on; the rounds before are kept.
    """
    active.use(plugins)
    images = _images(data_dir)
    if isinstance(config, RunConfig):
        whole = complete(config.model_dump(exclude={PLUGINS}), images)
    else:
        for key, value in config.items():
            if "." in key:
                raise dotted_key_error(key, value, "a run")
        given = plain_values(config)
        whole = complete(given, images)
        check_idle(whole, given)
        check_keys(whole, find(whole.dataset, images))
    store = _store(storage)
    store.pull_marks()
    check_origins([whole], store, images, accept=accept_changes)
    if not is_finished(store, whole):
        session = Session(InProcessPool(), images, accept_changes=accept_changes)
        for _ in run_to_end(session, whole, store, lambda: False):
            pass
    return load_run(whole, store)


@checked()
def run_grid(
    grid: Mapping[str, Any] | Path | str,
    *,
    name: str | None = None,
    storage: Storage | Path | str = "runs",
    data_dir: Path | str | None = None,
    plugins: Iterable[Path | str] = (),
    accept_changes: bool = False,
    in_process: bool = False,
    supersede: bool = False,
    trust: bool = False,
) -> Study:
    """Run a grid as `fedgrid run` does, and return its results.

    Finished runs are read and not repeated, interrupted ones go on after their last rounds. A run that fails
    is in `Study.unfinished`, with the cause. Progress is shown on standard error.

    Args:
        grid: the path of a YAML file, the name of a preset, or what such a file holds:
            `{"base": "quickstart", "seeds": "0..4", "training": {"rounds": 15}}`. Files that a dict names are
            relative to the current folder.
        name: the grid's name, None for that of the file or preset; a dict needs one. A file adds to the grid
            of this name, a dict only to one that was a dict before.
        storage: as of `run`, like `data_dir`, `plugins` and `accept_changes`.
        in_process: whether the runs go one after another in this process, and not on Ray. If the program has
            called `ray.init`, that Ray is used, and left running; otherwise one is started as for `fedgrid
            run`, and stopped at the end.
        supersede: whether finished runs of the name may be superseded, if the file or dict says something
            else than before and does not ask for them any longer. More rounds, or more runs, need no leave.
        trust: whether plugins that the file names are executed also where others may have written one of the
            two: in an unpacked bundle, or a grid's folder of a storage.

    Raises:
        ConfigError: for a key, name or value that does not exist, or changes that are not accepted, as of
            finished runs that would be superseded; nothing was started.
        DataError: if images are missing or damaged.
        RunError: if the grid as a whole cannot go on.
        ArgumentError: of a wrong kind of argument, a `TypeError` and `ValueError`.
        KeyboardInterrupt: after Ctrl-C, when the rounds under way have ended.
    """
    # They import MLflow, which one run does without.
    from fedgrid.grids.display.plain import PlainConsole
    from fedgrid.grids.execution.run import Launcher
    from fedgrid.grids.planning.options import LaunchOptions

    if grid == "":
        raise ConfigError("run_grid: grid = '': expected a preset, as in 'quickstart', a YAML file or a dict")
    active.use(plugins, trust=trust)
    images, store = _images(data_dir), _store(storage)
    loaded = load_grid(str(grid) if isinstance(grid, Path) else grid, {}, [], images, name=name)
    options = LaunchOptions(images, in_process=in_process, by_round=False, accept_changes=accept_changes)
    console = PlainConsole(stderr=True)
    refusal = "" if supersede else "supersede=True accepts that; another name= makes another grid"
    ended = Launcher(store, options, console).run(loaded, ask=lambda _: refusal)
    if ended.stopped:
        raise KeyboardInterrupt
    study = load(loaded.name, store)
    asked = {run.run_id for run in loaded.runs}
    return study.only(run for run in study.runs if run.run_id in asked)


def _images(data_dir: Path | str | None) -> Path:
    return image_folder(data_dir, "data_dir") if data_dir is not None else default_data_dir().absolute()


def _store(storage: Storage | Path | str) -> Storage:
    return storage if isinstance(storage, Storage) else Storage.of(storage)
