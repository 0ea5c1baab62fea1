"""A grid as a study, for reports of the command line, a notebook or a script."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.orders import BYTES_PER_ENTRY
from fedgrid.arguments import check_arguments
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.configuration.idle_settings import format_idle_lines
from fedgrid.engine.runtime.data.datasets import default_data_dir, find_dataset
from fedgrid.engine.runtime.integrity.made_with import IMAGES, describe_differences, load_parts
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GRIDS, GridFolder, superseded_words
from fedgrid.grids.results.import_marks import describe_imports
from fedgrid.grids.results.outcome import read_scores
from fedgrid.grids.results.runs import describe_configs, read_run
from fedgrid.manifest import CODE, Parts
from fedgrid.tracking.records import RecordsError
from fedgrid.tracking.scoring.axes import list_innermost_keys
from fedgrid.tracking.scoring.measures import add_harm
from fedgrid.tracking.scoring.run import FINISHED, Run, Scenario, load_result
from fedgrid.tracking.scoring.study import Study

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig


@check_arguments(grid="its name, and the folder that it is in second")
def load(
    grid: str,
    storage: Storage | Path | str = "runs",
    *,
    sizes: bool = False,
    superseded: bool = False,
    seen: Callable[[int, int], object] = lambda done, total: None,
) -> Study:
    """Read the results of a grid that was launched or imported: the records of each run, by column.

    Args:
        grid: its name.
        storage: the storage that has it: a folder (`runs` by default), a URI, or an open storage.
        sizes: give runs the size of their model, where the model and its data set are here to build it
            (default False).
        superseded: add superseded runs, of earlier launches; their algorithm's title says so (default False).
        seen: called with the number of runs that are read, and of all; does nothing by default.

    Raises:
        ConfigError: if there is no such grid.
        OtherVersion, DamagedFile: what a run was made with cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import fedgrid
        >>> from fedgrid.engine.runtime.storage.storage import Storage
        >>> from fedgrid.grids.results.grid_folder import GridFolder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     # A grid `tiny` of one run, as `fedgrid run` leaves it.
        ...     config = {"clients": 3, "algorithm": "fedavg", "training": {"rounds": 1}}
        ...     run = fedgrid.run(config, storage=folder)
        ...     runs = [fedgrid.RunConfig.model_validate(run.config)]
        ...     GridFolder(Storage(Path(folder)), "tiny").keep(runs, "")
        ...     study = fedgrid.load("tiny", folder)
        >>> [run.name for run in study.finished]
        ['digits-3-nonoverlapping-balanced-fedavg-s0']
        >>> study.finished[0].curves["clusters"]
        array([1.])
    """
    store = storage if isinstance(storage, Storage) else Storage.from_text(storage)
    store.pull_marks()
    # Both are names: the usual error would send the user to look for the grid in a wrong folder.
    if not GridFolder(store, grid).is_there and _has_swapped_arguments(grid, store):
        raise ConfigError(f"no grid {grid} in {store}: the name comes first, then the storage; swap them")
    stored = GridFolder(store, grid).read_definition()
    old = stored.superseded
    configs = (*stored.runs, *old) if superseded else stored.runs
    runs: list[Run] = []
    for config, run in zip(configs, describe_configs(configs, store, old), strict=True):
        seen(len(runs), len(configs))
        sized = (
            replace(run, model_bytes=compute_model_bytes(config)) if sizes and not run.is_archived else run
        )
        runs.append(_load_run(sized, config, store))
    left_out = 0 if superseded else len(old)
    superseded_notes = [f"{superseded_words(left_out)}."] if left_out else []
    imported = describe_imports(run.folder for run in runs)
    notes = (
        *superseded_notes,
        *imported,
        *format_idle_lines(configs),
        *_describe_training(runs),
        *_describe_origins(runs, configs),
    )
    return Study(grid, add_harm(runs), notes, left_out)


def _has_swapped_arguments(grid: str, storage: Storage) -> bool:
    """Check whether a grid's name, read as a folder, has a grid that is called like the storage."""
    return Path(grid, GRIDS, storage.root.name).is_dir()


def _load_run(run: Run, config: RunConfig, storage: Storage) -> Run:
    """Load a run with its result, or with its state and the cause why it has none."""
    now = read_run(run, config, storage)
    if now.state == FINISHED and storage.uri:
        # A finished run alone is fetched, and without its states, which are most of its bytes and no
        # result.
        storage.pull(run.folder.name, skip=("state-",))
        # The records have only come now.
        now = read_run(run, config, storage)
    if now.state != FINISHED:
        return now
    try:
        return load_result(now, now.scores)
    except RecordsError as error:
        return replace(now, cause=str(error))


def load_run(config: RunConfig, storage: Storage) -> Run:
    """Load a finished run with its result.

    Raises:
        DamagedFile: its scores are damaged.
        RecordsError: it has no records.
    """
    [run] = describe_configs([config], storage)
    return load_result(run, read_scores(run.folder, run.run_id))


def load_readable_results(runs: Iterable[Run], left_out: Callable[[RecordsError], object]) -> dict[str, Run]:
    """Load the results of finished runs by id; `left_out` is called with the error of each that has none."""
    results = {}
    for run in {run.run_id: run for run in runs}.values():
        try:
            results[run.run_id] = load_result(run, read_scores(run.folder, run.run_id))
        except RecordsError as error:
            left_out(error)
    return results


def compute_model_bytes(config: RunConfig) -> int | None:
    """Compute the bytes of a run's model as it is sent: four for each parameter and entry of a buffer.

    None where it cannot be built: its plugin is not in use, or its data set is not here.
    """
    # Imports torch, which takes seconds.
    from fedgrid.engine.federation.models.flat_vectors import build_layout

    try:
        # A model may come from a plugin, which is executed only if the user has named it in this process.
        active.activate_plugins(config.plugin_digests)
        dataset = find_dataset(config.dataset, default_data_dir())
        size = build_layout(config.model, dataset.inputs, dataset.num_classes).size
    except (ConfigError, DataError):
        return None
    return BYTES_PER_ENTRY * size


def _describe_training(runs: Iterable[Run]) -> Iterator[str]:
    """Yield a sentence for each key in which the training of algorithms differs, as after `--tuned`."""
    by_scenario: dict[tuple[str, Scenario], dict[str, list[str]]] = {}
    for run in runs:
        for key in list_innermost_keys(run.keys):
            if key.startswith("training."):
                values = by_scenario.setdefault((key, run.scenario), {})
                values.setdefault(run.keys[key], []).append(run.algorithm)
    differing: dict[str, dict[str, dict[str, None]]] = {}
    for (key, _), values in by_scenario.items():
        # Only within a scenario: that grids of several scenarios differ in their training is their purpose.
        for value, names in values.items() if len(values) > 1 else ():
            differing.setdefault(key, {}).setdefault(value, {}).update(dict.fromkeys(names))
    for key, names_by_value in differing.items():
        listed = "; ".join(f"{value} ({', '.join(names)})" for value, names in names_by_value.items())
        yield f"algorithms differ in {key}: {listed}"


def _describe_origins(runs: Sequence[Run], configs: Sequence[RunConfig]) -> Iterator[str]:
    """Yield sentences about finished runs that changed on their way, or that were not all made alike.

    Runs that were read from the archive were made elsewhere and are left out.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    codes: dict[str, Counter[str]] = defaultdict(Counter)
    for run, config in zip(runs, configs, strict=True):
        parts = load_parts(run.folder) if run.is_finished else ()
        if parts:
            yield from _describe_changes(run.name, parts)
            made_with = parts[-1].made_with
            for what, value in made_with.items():
                counts[what][value] += 1
            # Each algorithm's code is another one.
            codes[_name_code_parts(config)][made_with[CODE][:12]] += 1
    for what, versions in counts.items():
        if what not in (IMAGES, CODE) and len(versions) > 1:
            yield f"the runs were made with several versions of {what}: {_format_counts(versions)}"
    mixed = [
        f"{algorithm} {_format_counts(versions_of_code)}"
        for algorithm, versions_of_code in codes.items()
        if len(versions_of_code) > 1
    ]
    if mixed:
        yield f"runs of one algorithm were made with several versions of code: {'; '.join(mixed)}"


def _describe_changes(name: str, parts: Parts) -> Iterator[str]:
    """Yield a sentence for each change of versions within a run."""
    if parts[0].from_round != 1:
        yield f"{name}: what made its first rounds is not known"
    for before, later in zip(parts, parts[1:], strict=False):
        differences = ", ".join(describe_differences(before.made_with, later.made_with))
        yield f"{name}: rounds before {later.from_round} were {differences}"


def _name_code_parts(config: RunConfig) -> str:
    """Name what a run's code depends on: the algorithm, and parts of its settings that have a name."""
    parts = [
        value["name"]
        for value in config.algorithm.settings.values()
        if isinstance(value, Mapping) and value.get("name")
    ]
    return " with ".join([config.algorithm.name, *parts])


def _format_counts(counts: Mapping[str, int]) -> str:
    """Format values with their counts, as in `1.2 (7), 1.3 (2)`."""
    return ", ".join(f"{value} ({count})" for value, count in counts.items())
