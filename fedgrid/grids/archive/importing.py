"""The command `fedgrid import`: converts the authors' archive to runs in a storage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from shlex import quote
from typing import TypeVar

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive import archived_run, explanation_records, layout, training_records
from fedgrid.grids.archive.explanation_records import read_explanations
from fedgrid.grids.archive.foreign_grid import ForeignGrid, hold_grids
from fedgrid.grids.archive.layout import RunFiles
from fedgrid.grids.archive.training_records import read_training
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.archive_models import MODELS, is_archived
from fedgrid.grids.results.grid_folder import GridFolder

TEXT = """\
# Runs of the OCFL papers' authors, read from their archive by `fedgrid import`. None of them was run here.
# The archive has no seeds: seed 0 stands for the run of the tables, 1 for the one made for its temperature.
hidden_groups: {truth}
"""
TRUTH = {False: "those of the images", True: "published (bloodmnist-30-overlapping-imbalanced as 7/14/9)"}

PRESET = "paper-as-published"
SEED, TEMPERATURE_SEED = 0, 1
"""Seeds of runs; the archive has none. Runs for the temperature repeat those without clustering, so they get
another."""
TEMPERATURE_TRAINING = {"cifar10": {"learning_rate": 0.005, "momentum": 0.85, "weight_decay": 5e-4}}
"""Settings that the archive's own configuration of these runs changes. It sets nesterov too, which fedgrid
lacks."""

F = TypeVar("F")
R = TypeVar("R")


class ArchivedGrid:
    """A grid of archived runs."""

    def __init__(
        self,
        name: str,
        archived: Sequence[RunFiles],
        storage: Storage,
        trackers: Sequence[str],
        *,
        published_truth: bool,
    ) -> None:
        """Prepare the grid; nothing is written yet.

        Args:
            name: Name of the grid.
            archived: Its runs in the archive.
            storage: Storage of the grid.
            trackers: Names of the trackers that receive the runs.
            published_truth: Whether the hidden groups are those of the authors' notebook.
        """
        self.name, self.archived_runs = name, archived
        self.grid = ForeignGrid(name, storage, trackers, warn, TEXT.format(truth=TRUTH[published_truth]))
        self.imported = 0
        self.absent: Counter[tuple[str, ...]] = Counter()
        self._published_truth = published_truth

    def import_run(self, archived: RunFiles, path: Path) -> str:
        """Import a run of the archive in `path`; return a line that says what was done."""
        run = archived_run.read_run(archived, published_truth=self._published_truth)
        config = build_config(archived, run.rounds.num_rows)
        # Without the folders above the archive: the log may be published, and they name the user.
        source = Path(path.resolve().name) / archived.folder.relative_to(path)
        log = [f"read from {source.as_posix()}", *(f"absent: {name}" for name in run.absent)]
        is_new = self.grid.take_run(config, {"rounds": run.rounds, "clients": run.clients}, log)
        self.imported += is_new
        self.absent[run.absent] += 1
        return f"{config.name}: {'imported' if is_new else 'unchanged'}"

    def collect_facts(self) -> dict[str, object]:
        """Collect what `--json` prints of the grid."""
        runs = self.grid.runs
        return {
            "grid": self.name,
            "runs": len(runs),
            "imported": self.imported,
            "unchanged": len(runs) - self.imported,
            "scenarios": len({run.scenario for run in runs}),
            "algorithms": len({run.algorithm.name for run in runs}),
            "absent": [
                {"files": list(names), "runs": count} for names, count in sorted(self.absent.items()) if names
            ],
            "mlflow": self.grid.mlflow,
        }


def import_archive(
    path: Path,
    name: str,
    storage: Storage,
    trackers: Sequence[str],
    *,
    published_truth: bool,
    as_json: bool,
    console: Console,
) -> None:
    """Import the archive in `path` as grid `name`, and its temperature runs as grid `name`-temperature.

    A run that is there already, with the same records, is left alone. The archive's centralised trainings and
    scores of explanations go into the folder of grid `name`. Other files are skipped, and those of them that
    should be readable are named.

    Args:
        path: Folder of the archive.
        name: Name of the grid.
        storage: Storage of both grids.
        trackers: Names of the trackers that receive the runs.
        published_truth: Whether the hidden groups are those of the authors' notebook.
        as_json: Whether JSON is printed instead of lines.
        console: Where lines are shown.

    Raises:
        ConfigError: The folder is not an archive, or a grid of the name has other runs.
        DataError: A file is malformed; runs imported before stay.
        RunError: The storage cannot be written.
    """
    layout.check_archive(path)
    by_grid = {name: layout.find_runs(path), f"{name}-temperature": layout.find_temperature_runs(path)}
    grids = [
        ArchivedGrid(name, runs, storage, trackers, published_truth=published_truth)
        for name, runs in by_grid.items()
        if runs
    ]
    if not grids:
        raise ConfigError(
            f"{path} has folders of the authors' archive, but no run in them; unpack the whole archive"
        )
    # Read before anything is written, so that the warnings come first.
    trainings = list(_read_each(read_training, layout.find_trainings(path)))
    rows = [row for rows in _read_each(read_explanations, layout.find_explanations(path)) for row in rows]
    storage.pull_marks()
    # A storage that cannot be written is refused before the first run is read.
    storage.check_writable()
    for grid in grids:
        _check_archived(grid.name, grid.grid.runs_before)
    # Both grids are held to the end, as a launch in between would see half of the runs.
    with hold_grids([*by_grid], storage, warn) as lease:
        for grid in grids:
            for run in grid.archived_runs:
                lease.check_ownership()
                imported = grid.import_run(run, path)
                if not as_json:
                    print_plain(console, imported)
        with nullcontext() if as_json else console.status("Telling the trackers ..."):
            for grid in grids:
                grid.grid.finish_grid()
            training_records.write_trainings(trainings, GridFolder(storage, name))
            explanation_records.write_rows(rows, GridFolder(storage, name))
    training_names = [f"{training.dataset}: {training.name}" for training in trainings]
    if as_json:
        others = {"centralised": training_names, "explanations": len(rows), "storage": str(storage)}
        print(json.dumps({"grids": [grid.collect_facts() for grid in grids], **others}))
    else:
        _show_result(grids, training_names, len(rows), storage, console)


def build_config(run: RunFiles, num_rounds: int) -> RunConfig:
    """Build the configuration of a run: that of the preset, with the archive's model and number of rounds."""
    values = _load_published()[run.scenario.name, run.algorithm].model_dump()
    values["model"] = MODELS[run.scenario.dataset]
    values["training"]["rounds"] = num_rounds
    values["seed"] = SEED
    if run.measures_temperature:
        values["seed"] = TEMPERATURE_SEED
        values["training"] |= TEMPERATURE_TRAINING.get(run.scenario.dataset, {})
    # Validated as a whole again, as the values come from two sources.
    return RunConfig(**values)


def _check_archived(grid: str, runs: Iterable[RunConfig]) -> None:
    """Check that a grid, which is imported into, has only archived runs.

    Raises:
        ConfigError: It has others.
    """
    own = sum(not is_archived(run) for run in runs)
    if own:
        raise ConfigError(f"grid {grid} has {own} runs that are not from the archive; choose another --name")


@cache
def _load_published() -> dict[tuple[str, str], RunConfig]:
    """Load the runs of the preset of the papers, by scenario and algorithm."""
    grid = load_grid(PRESET, {}, [], default_data_dir())
    return {(run.scenario, run.algorithm.name): run for run in grid.runs}


def _read_each(read: Callable[[F], R], files: Iterable[F]) -> Iterator[R]:
    """Yield the content of the files that can be read; the others are named and skipped."""
    # These files are additions, so that a malformed one does not keep the runs out, as a run's own files do.
    for file in files:
        try:
            yield read(file)
        except DataError as error:
            warn(f"skipped: {error}")


def _show_result(
    grids: Sequence[ArchivedGrid],
    trainings: Sequence[str],
    explained: int,
    storage: Storage,
    console: Console,
) -> None:
    """Show how many runs were imported, and what comes next."""
    say = partial(print_plain, console)
    for grid in grids:
        numbers = grid.collect_facts()
        say(
            f"{grid.name}: {numbers['runs']} runs (scenarios: {numbers['scenarios']}, algorithms: "
            f"{numbers['algorithms']}); {numbers['imported']} imported, {numbers['unchanged']} unchanged"
        )
        for names, count in sorted(grid.absent.items()):
            if names:
                say(f"  absent in {count} of them: {', '.join(names)}")
    if trainings:
        show = f"fedgrid analyse centralised epsilons --storage {quote(str(storage))}"
        say(f"centralised trainings: {len(trainings)}; `{show}` shows them beside your own")
    if explained:
        say(f"scores of explanations: {explained} models; `fedgrid report` has their tables")
    say(f"Written to {storage}")
    for line in grids[0].grid.tracker_lines():
        say(line)
    for grid in grids:
        say(f"Next:  fedgrid report {quote(grid.name)} --storage {quote(str(storage))}")
