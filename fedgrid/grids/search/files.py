"""The files of a search in its grid's folder: `search.json`, `search.csv`, figures."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.preset_files import SEARCH_KEY
from fedgrid.grids.presets.yaml_file import YamlFile
from fedgrid.grids.results.grid_folder import GRIDS, SEARCH_RESULT, GridFolder
from fedgrid.grids.search.definition import Search
from fedgrid.grids.search.objectives import (
    ARI,
    LABEL_FREE,
    OBJECTIVES,
    ORACLE,
    Trial,
    find_best,
    find_label_free,
)
from fedgrid.grids.search.searchers import BATCH, SEED
from fedgrid.grids.search.space import Range
from fedgrid.redaction import format_csv
from fedgrid.sealed_json import seal_values

TABLE, FIGURES = "search.csv", "figures"
DEFINITION_DIGEST = "search"
"""Key of the digest of the search's definition."""


def check_same(search: Search, storage: Storage) -> None:
    """Check that a stored search of the same name, if there is one, is the same search.

    Raises:
        ConfigError: It is another one; the message names the keys that differ.
    """
    folder = GridFolder(storage, search.name)
    if not folder.is_there:
        return
    stored = YamlFile(search.name, folder.read_preset()).values
    if SEARCH_KEY not in stored:
        raise ConfigError(f"{search.name} is already the name of a grid; give the search another --name")
    other = [key for key, value in search.description.items() if key != "trials" and stored.get(key) != value]
    if other:
        raise ConfigError(
            f"{storage} has a search {search.name} with another {' and '.join(other)}; give this one "
            "another --name"
        )


def compute_digest(folder: GridFolder) -> str:
    """Compute a digest of the definition of the search in a folder, without its number of trials.

    Raises:
        ConfigError: Its preset is missing or damaged.
    """
    # More trials continue the same search, so that their number is no part of the digest.
    values = {**YamlFile(folder.name, folder.read_preset()).values, "trials": None}
    return sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:12]


def build_result(
    search: Search, trials: Sequence[Trial], complete: bool, definition_digest: str
) -> dict[str, Any]:
    """Build the result of a search as it stands in `search.json`.

    Args:
        search: The search.
        trials: Its trials so far.
        complete: Whether all trials are done.
        definition_digest: Digest of its definition, from `compute_digest`.
    """
    free = find_label_free(search.objective)
    bests = find_best(trials, search.objective)
    return {
        "name": search.name,
        DEFINITION_DIGEST: definition_digest,
        "algorithm": search.algorithm,
        "datasets": list(dict.fromkeys(run.dataset for run in search.base)),
        "runs": [run.name for run in search.base],
        "space": {key: dimension.to_plain() for key, dimension in search.space.items()},
        "searcher": search.searcher,
        "seed": SEED,
        "batch": BATCH,
        "objective": search.objective,
        "early_stop": search.early_stop.to_plain(),
        "objective_needs_truth": OBJECTIVES[search.objective].is_oracle,
        "trials_asked": search.trials,
        "trials_done": len(trials),
        "complete": complete,
        "best": {
            kind: {
                "by": ARI if kind == ORACLE else free,
                "needs_truth": kind == ORACLE,
                **bests[kind].to_dict(),
            }
            for kind in (LABEL_FREE, ORACLE)
            if kind in bests
        },
        "trials": [trial.to_dict() for trial in trials],
    }


def write_files(search: Search, trials: Sequence[Trial], complete: bool, storage: Storage) -> list[Path]:
    """Write all files, unless they are there.

    Args:
        search: The search.
        trials: Its trials so far.
        complete: Whether all trials are done.
        storage: Storage of the grid.

    Returns:
        The paths of `search.json` and `search.csv`.

    Raises:
        RunError: They cannot be written.
    """
    folder = GridFolder(storage, search.name)
    text = seal_values(build_result(search, trials, complete, compute_digest(folder)), indent=2)
    results = folder.path / SEARCH_RESULT
    has_figures = any(isinstance(of, Range) for of in search.space.values())
    is_drawn = (folder.path / FIGURES).exists() or not has_figures
    if not (results.exists() and results.read_bytes() == text.encode() and is_drawn):
        _draw_figures(search, trials, folder)
        folder.write_file(TABLE, _format_table(search, trials))
        # Last: where this file exists, the others are complete.
        folder.write_file(SEARCH_RESULT, text)
    return [folder.path / SEARCH_RESULT, folder.path / TABLE]


def read_results(name: str, storage: Storage) -> dict[str, Any]:
    """Read the result of a search, the content of `search.json`.

    Raises:
        ConfigError: There is no such search, or its file is damaged or that of another search.
    """
    folder = GridFolder(storage, name)
    try:
        results = unseal_file(folder.path / SEARCH_RESULT)
        if (results.get("name"), results.get(DEFINITION_DIGEST)) != (name, compute_digest(folder)):
            raise DamagedFile(folder.path / SEARCH_RESULT, "it is of another search")
    except FileNotFoundError as error:
        names = sorted(path.parent.name for path in (storage.root / GRIDS).glob(f"*/{SEARCH_RESULT}"))
        advice = (
            f"there: {', '.join(names)}" if names else "name another --storage, or start one: fedgrid search"
        )
        raise ConfigError(f"no search '{name}' in {storage}; {advice}") from error
    except DamagedFile as error:
        raise ConfigError(f"{error}; repeat the search's command to write it again") from error
    return results


def _format_table(search: Search, trials: Sequence[Trial]) -> str:
    """Format the table with one row for each trial as CSV; the oracle's column is named so."""
    scores = [f"{name}_oracle" if of.is_oracle else name for name, of in OBJECTIVES.items()]
    lines: list[list[Any]] = [["trial", *search.space, *scores, "stopped_at", "failed", "runs"]]
    for trial in trials:
        params = [trial.params.get(key, "") for key in search.space]
        values = [trial.objective_score(name) for name in OBJECTIVES]
        runs = " ".join(trial.run_ids)
        lines.append([trial.number, *params, *values, trial.stopped_at, trial.failed, runs])
    return format_csv(lines)


def _draw_figures(search: Search, trials: Sequence[Trial], folder: GridFolder) -> None:
    """Draw the scores over each range of numbers, and a heat map over the first two ranges."""
    # Importing matplotlib takes a second.
    from fedgrid.tracking.figures.search import Axis, FinishedTrial, draw_heat_map, draw_score_curves
    from fedgrid.tracking.figures.style import encode_figure

    free = find_label_free(search.objective)
    panels = {OBJECTIVES[free].words: free, "ARI, which needs the truth (oracle)": ARI}
    # Best label-free score first: the figures ring the first of several trials that are equal by the oracle.
    ranked = sorted(
        trials, key=lambda trial: (trial.objective_score(free) is None, -(trial.objective_score(free) or 0.0))
    )
    finished_trials = []
    for trial in (trial for trial in ranked if trial.params):
        scores = {title: trial.objective_score(name) for title, name in panels.items()}
        finished_trials.append(
            FinishedTrial(trial.params, {key: score for key, score in scores.items() if score is not None})
        )
    ranges = {key: of for key, of in search.space.items() if isinstance(of, Range)}
    axes = [Axis(key, of.low, of.high, of.log, of.is_integer) for key, of in ranges.items()]
    choices = [key for key in search.space if key not in ranges]
    shown = {title: (0.0, 1.0) if name == ARI else None for title, name in panels.items()}
    figures = {}
    if axes:
        figures["curves"] = draw_score_curves(finished_trials, axes, shown, choices[0] if choices else None)
    if len(axes) > 1:
        figures["heat-map"] = draw_heat_map(finished_trials, axes[0], axes[1], shown)
    for name, figure in figures.items():
        for kind in ("svg", "png"):
            file = f"{name}.{kind}"
            folder.write_file(f"{FIGURES}/{file}", encode_figure(figure, file))
