"""Descriptions in MLflow, in Markdown: of a grid's experiment, of the grid's own run, and of each run."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import quote as in_address

from fedgrid.algorithms import registry
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.runtime.configuration.idle_settings import idle_settings
from fedgrid.engine.runtime.integrity.made_with import IMAGES, MADE_WITH, Parts, parts_of
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.trackers.annotations import annotations_of
from fedgrid.grids.trackers.names import described
from fedgrid.redaction import in_markdown, redacted
from fedgrid.tracking.mlflow.notes import Annotation
from fedgrid.tracking.mlflow.view import VIEW_KEY

NAME_LENGTH, DIGEST_LENGTH = 500, 36
"""Limits of MLflow."""


def of_grid(name: str, experiment_id: str) -> str:
    """Return the description of a grid's experiment: what it is, how to read it, the commands."""
    grid, shown = quote(name), in_markdown(name)
    return f"""**The runs of the grid `{shown}`.** A run is one scenario, one algorithm and one seed.

- [The prepared view](#/experiments/{experiment_id}/runs?viewStateShareKey={VIEW_KEY}&compareRunsMode=CHART) \
draws curves, a group of runs for each algorithm and further axis; the icon above them shows the list. \
`fedgrid ui {grid}` opens it.
- Names begin with what differs: algorithm, seed, split (NB: nonoverlapping-balanced), further settings, \
scenario. Filter as in \
`tags.algorithm LIKE "ocfl%" AND tags.clients = "15"`.
- Sections: `clustering` (against the hidden groups), `clients` (tests of the clusters' models: \
*personalised* on a client's own images, *generalised* on the server's), `training`, `cost`.
- The run `{name}` is the grid itself: its preset, its summary, means by algorithm, its report.

```
fedgrid status {grid}      # runs done, running, waiting, failed
fedgrid report {grid}      # tables, figures and tests
fedgrid run {grid}         # continues after an interruption
fedgrid sync {grid}        # logs here what is missing
```
"""


def of_metrics() -> str:
    """Return a table of the metrics."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in described().items()]
    return "\n".join(["| metric of a round | meaning |", "| --- | --- |", *rows])


def of_run_ended(config: RunConfig, figures: Sequence[Path], mlflow_run_id: str) -> str:
    """Return a run's description: what it is, and its `figures`, which are among its artifacts."""
    return "\n\n".join(
        [what(config), *idle_settings(config).values(), *(_figure(path, mlflow_run_id) for path in figures)]
    )


def annotation(folder: Path) -> Annotation:
    """Return the user's note, which is plain text, and tags of the run in a folder."""
    found = annotations_of(folder)
    return Annotation("\n".join(map(in_markdown, found.note.split("\n"))), found.tags)


def dataset_digest(folder: Path) -> str:
    """Return the digest of a run's images; empty before its first round and for an archived run."""
    parts: Parts = ()
    with suppress(DamagedFile):
        parts = parts_of(folder / MADE_WITH)
    return parts[0].made_with.get(IMAGES, "") if parts else ""


def dataset_of(config: RunConfig, digest: str) -> Any:
    """Return a run's data set as MLflow's entity, for its column *Dataset*."""
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

    entry = DATASETS.get(config.dataset)
    facts: dict[str, Any] = {"clients": config.clients, "split": config.split.kind}
    if entry is not None:
        facts |= {"images": entry.pool_size, "classes": entry.num_classes, "shape": entry.shape}
    dataset = Dataset(
        config.short_dataset[:NAME_LENGTH],
        digest[:DIGEST_LENGTH] or "unknown",
        source_type="local",
        source=json.dumps({"uri": redacted(config.dataset if entry is None else entry.source)}),
        profile=json.dumps(facts),
    )
    return DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, "training")])


def what(config: RunConfig) -> str:
    """Return what a run is, in a sentence."""
    name, dataset, model = map(in_markdown, (config.algorithm["name"], config.short_dataset, config.model))
    title = in_markdown(registry.title(config.algorithm["name"]))
    return (
        f"**{title}** (`{name}`) on {dataset}, {config.clients} clients, "
        f"{config.split.kind}; seed {config.seed}, {config.training.rounds} rounds, "
        f"{config.training.local_epochs} local epochs, model {model}."
    )


def _figure(path: Path, mlflow_run_id: str) -> str:
    """Return an image from the run's artifacts; the address is relative, for any server."""
    at = in_address(f"figures/{path.name}", safe="")
    return f"![{in_markdown(path.stem)}](get-artifact?path={at}&run_uuid={mlflow_run_id})"
