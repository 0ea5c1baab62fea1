"""One run in this process, for notebooks and scripts: no Ray, no MLflow, no grid."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.configuration.complete import complete
from fedgrid.engine.configuration.idle_settings import check_idle
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data.datasets import default_data_dir
from fedgrid.engine.plugins import active
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.planning.origins import check_origins
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.study import describe, result_of
from fedgrid.tracking.scoring.run import RunResult


def run(
    config: RunConfig | Mapping[str, Any],
    *,
    storage: Storage | Path | str = "runs",
    data_dir: Path | str | None = None,
    plugins: Iterable[Path | str] = (),
    accept_changes: bool = False,
) -> RunResult:
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
    images = Path(data_dir).absolute() if data_dir is not None else default_data_dir().absolute()
    whole = config if isinstance(config, RunConfig) else complete(config, images)
    if not isinstance(config, RunConfig):
        check_idle(whole, config)
    store = storage if isinstance(storage, Storage) else Storage.of(storage)
    store.pull_marks()
    check_origins([whole], store, images, accept=accept_changes)
    if not is_finished(store, whole):
        session = Session(InProcessPool(), images, accept_changes=accept_changes)
        for _ in run_to_end(session, whole, store, lambda: False):
            pass
    [found] = describe([whole], store)
    return result_of(found)
