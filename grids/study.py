"""A grid as a study: what the command line, a notebook or a script reports on.

from grids.study import load
from tracking import figures

figures.segments(load("paper").where(dataset="mnist")).savefig("segments.pdf")
"""

from collections.abc import Iterable, Mapping, Sequence

from algorithms.registry import ALGORITHMS
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, folder_of
from engine.storage import Storage
from grids.grid_folder import GridFolder
from grids.outcome import is_finished
from tracking.mlflow_runs import flatten
from tracking.records import RecordsError
from tracking.study import Result, Run, Study, plain, read_result

AS_PUBLISHED = " as published"
CELL = ("dataset", "overlap", "balance", "clients", "seed")
"""What runs that are compared with one another have in common."""


def load(grid: str, storage: Storage | str = "runs") -> Study:
    """Read the results of a grid that was launched or imported; of each run the records, by column.

    Raises:
        ConfigError: if there is no such grid.
    """
    store = Storage.of(storage) if isinstance(storage, str) else storage
    store.pull_marks()
    configs = GridFolder(store, grid).runs()
    results: dict[str, Result] = {}
    lacking: dict[str, str] = {}
    runs = describe(configs, store)
    for config, run in zip(configs, runs, strict=True):
        if not is_finished(store, config):
            lacking[run.run_id] = _how_far(RunFolder(store, config))
            continue
        store.pull(run.folder.name, skip=("state-", "figures/"))
        try:
            results[run.run_id] = read_result(run)
        except RecordsError as error:
            lacking[run.run_id] = str(error)
    return Study(grid, runs, results, lacking)


def describe(configs: Sequence[RunConfig], storage: Storage) -> tuple[Run, ...]:
    """Return what a report needs to know of each run, with names for its algorithm that tell it apart."""
    told = _told_apart_by(configs)
    return tuple(
        Run(
            run_id=config.run_id,
            name=config.name,
            folder=folder_of(storage.root, config),
            dataset=plain(config.scenario.rsplit("-", 3)[0]),
            overlap=config.overlap,
            balance=config.balance,
            clients=config.clients,
            algorithm=_title(config, told),
            published=ALGORITHMS[config.algorithm["name"]].title.removesuffix(AS_PUBLISHED),
            seed=config.seed,
            rounds=config.training.rounds,
        )
        for config in configs
    )


def _title(config: RunConfig, told: Iterable[str]) -> str:
    values = flatten(config.model_dump(mode="json"))
    settings = [f"{key.removeprefix('algorithm.')} {values[key]}" for key in told if key in values]
    title = ALGORITHMS[config.algorithm["name"]].title
    return f"{title} ({', '.join(settings)})" if settings else title


def _told_apart_by(configs: Sequence[RunConfig]) -> list[str]:
    """Return the keys in which runs of one algorithm differ that share a scenario and a seed."""
    groups: dict[tuple[object, ...], list[Mapping[str, str]]] = {}
    for config in configs:
        shared = (*(getattr(config, axis) for axis in CELL), config.algorithm["name"])
        groups.setdefault(shared, []).append(flatten(config.model_dump(mode="json")))
    differing: dict[str, None] = {}
    for group in groups.values():
        for key in dict.fromkeys(key for values in group for key in values):
            if len({values.get(key) for values in group}) > 1:
                differing[key] = None
    return list(differing)


def _how_far(folder: RunFolder) -> str:
    if failure := folder.failure():
        return f"failed: {failure.cause}"
    rounds = folder.rounds_done
    return f"{rounds} of {folder.config.training.rounds} rounds" if rounds else "not started"
