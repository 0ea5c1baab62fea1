"""Run a configuration or a grid from a notebook or script: `fedgrid.run` and `fedgrid.run_grid`.

A single run needs no Ray and no MLflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedgrid.arguments import check_arguments
from fedgrid.engine.federation.configuration.run_config import PLUGINS_KEY, RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.configuration.idle_settings import check_idle, check_keys
from fedgrid.engine.runtime.data.datasets import check_image_folder, default_data_dir, find_dataset
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.planning.checks import check_origins
from fedgrid.grids.presets.load import convert_to_yaml_types, load_grid
from fedgrid.grids.presets.read_preset import build_dotted_key_error
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.study import load, load_run
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study


@check_arguments(config="fedgrid.run_grid runs a preset, a file or several runs")
def run(
    config: RunConfig | Mapping[str, Any],
    *,
    storage: Storage | Path | str = "runs",
    data_dir: Path | str | None = None,
    plugins: Iterable[Path | str] = (),
    accept_changes: bool = False,
) -> Run:
    """Run one configuration in this process and return its result.

    The run is stored in `storage`, where `fedgrid run` stores its runs too: a finished run is read, not
    repeated, and an interrupted one continues after its last round.

    Args:
        config: keys of a run as in a preset, at least those that differ from the defaults:
            `{"dataset": "digits", "algorithm": "ocfl-hdbscan", "training": {"rounds": 15}}`.
        storage: a folder, or a URI such as `s3://bucket/runs`; default: the folder `runs`.
        data_dir: folder of the data sets; default None: the user's cache.
        plugins: files with algorithms, clusterers or models of your own, in use from now on; default: none.
            Files of earlier calls are no longer in use. A changed file is loaded again and makes another run.
        accept_changes: whether stored rounds that were made with other code, versions or machines are used;
            default False.

    Returns:
        The run with its scores, curves and records.

    Raises:
        ConfigError: for a key, name or value that does not exist, or changes that are not accepted; nothing
            was started.
        DataError: if the images are missing or damaged, or others than the run was made with.
        RunError: if the run cannot continue; the rounds before are kept.
        ArgumentError: for an argument of a wrong kind; it is a `TypeError` and a `ValueError`.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import fedgrid
        >>> config = {"dataset": "digits", "algorithm": "fedavg", "clients": 3, "training": {"rounds": 2}}
        >>> with TemporaryDirectory() as folder:
        ...     result = fedgrid.run(config, storage=folder)
        >>> result.rounds, result.scores["clusters"]
        (2, 1)
    """
    active.use_plugins(plugins)
    images = _find_data_dir(data_dir)
    if isinstance(config, RunConfig):
        completed = complete_config(config.model_dump(exclude={PLUGINS_KEY}), images)
    else:
        for key, value in config.items():
            if "." in key:
                raise build_dotted_key_error(key, value, "a run")
        given_values = convert_to_yaml_types(config)
        completed = complete_config(given_values, images)
        # Only of what the user wrote: a complete configuration names every setting, also those without
        # effect.
        check_idle(completed, given_values)
        check_keys(completed, find_dataset(completed.dataset, images))
    store = _open_storage(storage)
    # At a URI, another machine may have finished the run meanwhile.
    store.pull_marks()
    check_origins([completed], store, images, accept=accept_changes)
    if not is_finished(store, completed):
        session = Session(InProcessPool(), images, accept_changes=accept_changes)
        # Its events are for progress displays. An error ends the iterator, and this call.
        for _ in run_to_end(session, completed, store, lambda: False):
            pass
    return load_run(completed, store)


@check_arguments()
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

    Finished runs are read, not repeated; interrupted ones continue after their last rounds. A run that fails
    is in `Study.unfinished`, with the cause. Progress is shown on standard error, and runs are logged to
    MLflow in the storage.

    Args:
        grid: the path of a YAML file, the name of a preset, or what such a file holds:
            `{"base": "quickstart", "seeds": "0..4", "training": {"rounds": 15}}`. Files that a dict names are
            relative to the current folder.
        name: the grid's name; default None: that of the file or preset; a dict needs one. A file adds to the
            grid of this name, a dict only to one that was a dict before.
        storage: as for `run`, like `data_dir`, `plugins` and `accept_changes`.
        in_process: whether the runs are executed one after another in this process, and not on Ray; default
            False. If the program has called `ray.init`, that Ray is used, and left running; otherwise one is
            started as for `fedgrid run`, and stopped at the end.
        supersede: whether finished runs of the name may be superseded, if the file or dict differs from
            before and no longer includes them; default False. More rounds, or more runs, need no permission.
        trust: whether plugins that the file names are executed also where others may have written one of the
            two: in an unpacked bundle, or a grid's folder of a storage; default False.

    Returns:
        The runs of `grid`, finished or failed; runs that the name had before and `grid` lacks are left out.

    Raises:
        ConfigError: for a key, name or value that does not exist, or changes that are not accepted, as of
            finished runs that would be superseded; nothing was started.
        DataError: if images are missing or damaged.
        RunError: if the grid as a whole cannot continue.
        ArgumentError: for an argument of a wrong kind; it is a `TypeError` and a `ValueError`.
        KeyboardInterrupt: after Ctrl-C, when the rounds in progress have ended.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import fedgrid
        >>> grid = {"dataset": "digits", "algorithm": "fedavg", "clients": 3, "seeds": "0..1"}
        >>> grid["training"] = {"rounds": 1}
        >>> with TemporaryDirectory() as folder:
        ...     study = fedgrid.run_grid(grid, name="example", storage=folder, in_process=True)
        >>> [(run.algorithm, run.seed, run.rounds) for run in study.runs]
        [('fedavg', 0, 1), ('fedavg', 1, 1)]
    """
    # They import MLflow, which one run does without.
    from fedgrid.grids.display.plain_console import PlainConsole
    from fedgrid.grids.execution.run import Launcher
    from fedgrid.grids.planning.options import LaunchOptions

    if grid == "":
        raise ConfigError("run_grid: grid = '': expected a preset, as in 'quickstart', a YAML file or a dict")
    active.use_plugins(plugins, trust=trust)
    images, store = _find_data_dir(data_dir), _open_storage(storage)
    loaded = load_grid(str(grid) if isinstance(grid, Path) else grid, {}, [], images, name=name)
    options = LaunchOptions(images, in_process=in_process, by_round=False, accept_changes=accept_changes)
    console = PlainConsole(stderr=True)
    refusal = "" if supersede else "supersede=True accepts that; another name= makes another grid"
    result = Launcher(store, options, console).run_unfinished(loaded, confirm=lambda _: refusal)
    if result.stopped:
        raise KeyboardInterrupt
    study = load(loaded.name, store)
    requested_ids = {run.run_id for run in loaded.runs}
    return study.only(run for run in study.runs if run.run_id in requested_ids)


def _find_data_dir(data_dir: Path | str | None) -> Path:
    """Find the folder of the data sets."""
    return check_image_folder(data_dir, "data_dir") if data_dir is not None else default_data_dir().absolute()


def _open_storage(storage: Storage | Path | str) -> Storage:
    """Open a storage that is given as a path or URI."""
    return storage if isinstance(storage, Storage) else Storage.from_text(storage)
