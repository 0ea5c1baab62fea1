"""Descriptions in MLflow, in Markdown: of a grid's experiment, of the grid's own run, and of each run.

They are written again when a run ends, unless the user has changed them in MLflow. A note of `fedgrid show`
stands above a run's description; its tags are tags in MLflow.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import quote as in_address

from fedgrid.algorithms import registry
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.runtime.configuration.idle_settings import idle_settings
from fedgrid.engine.runtime.integrity.made_with import IMAGES, parts_of
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.trackers.annotations import Annotations
from fedgrid.grids.trackers.mlflow.view import VIEW_KEY, VIEW_TAG
from fedgrid.manifest import Parts
from fedgrid.redaction import in_markdown, redacted

NAME_LENGTH, DIGEST_LENGTH, NOTE_LENGTH = 500, 36, 8000
"""Limits of MLflow."""
NOTE_TAG, OURS_TAG = "mlflow.note.content", "fedgrid.note"
"""A description, and the digest of what was written there last: another text is the user's own."""
ANNOTATED_TAG = "fedgrid.annotated"
"""A digest of the annotations that were written last, and the keys of their tags."""
KIND_TAG, KIND = "mlflow.experimentKind", "custom_model_development"
"""Without it, MLflow's pages are those for language models."""
RULE = "\n\n---\n\n"
"""Between a note and the description below it."""


def describe_experiment(client: Any, experiment_id: str, grid: str, view: str) -> None:
    """Set an experiment's prepared view, and its description, unless the user has written one."""
    present = client.get_experiment(experiment_id).tags
    tags = {VIEW_TAG: view, KIND_TAG: present.get(KIND_TAG, KIND)}
    if is_ours(present):
        tags |= note_tags(of_grid(grid, experiment_id))
    for key, value in tags.items():
        if present.get(key) != value:
            client.set_experiment_tag(experiment_id, key, value)


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


def of_metrics(meanings: Mapping[str, str]) -> str:
    """Return a table of the metrics by key."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in meanings.items()]
    return "\n".join(["| metric of a round | meaning |", "| --- | --- |", *rows])


def of_run_ended(config: RunConfig, figures: Sequence[Path], mlflow_run_id: str) -> str:
    """Return a run's description: what it is, and its `figures`, which are among its artifacts."""
    return "\n\n".join(
        [
            describe_run(config),
            *idle_settings(config).values(),
            *(_figure(path, mlflow_run_id) for path in figures),
        ]
    )


def dataset_of(config: RunConfig, folder: Path) -> Any:
    """Return a run's data set as MLflow's entity, for its column *Dataset*."""
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

    parts: Parts = ()
    with suppress(DamagedFile):
        parts = parts_of(folder)
    digest = parts[0].made_with.get(IMAGES, "") if parts else ""
    entry = DATASETS.get(config.dataset)
    facts: dict[str, Any] = {"clients": config.clients, "split": config.split.kind}
    if entry is not None and not entry.is_own:
        facts |= {"images": entry.pool_size, "classes": entry.num_classes, "shape": entry.inputs.shape}
    dataset = Dataset(
        config.short_dataset[:NAME_LENGTH],
        digest[:DIGEST_LENGTH] or "unknown",
        source_type="local",
        source=json.dumps({"uri": redacted(config.dataset if entry is None else entry.source)}),
        profile=json.dumps(facts),
    )
    return DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, "training")])


def describe_run(config: RunConfig) -> str:
    """Return what a run is, in a sentence."""
    name, dataset, model = map(in_markdown, (config.algorithm.name, config.short_dataset, config.model))
    steps, epochs = config.training.local_steps, config.training.local_epochs
    length = f"{epochs} local epochs" if steps is None else f"{steps} local steps"
    title = in_markdown(registry.title(config.algorithm.name))
    return (
        f"**{title}** (`{name}`) on {dataset}, {config.clients} clients, "
        f"{config.split.kind}; seed {config.seed}, {config.training.rounds} rounds, "
        f"{length}, model {model}."
    )


def _figure(path: Path, mlflow_run_id: str) -> str:
    """Return an image from the run's artifacts; the address is relative, for any server."""
    at = in_address(f"figures/{path.name}", safe="")
    return f"![{in_markdown(path.stem)}](get-artifact?path={at}&run_uuid={mlflow_run_id})"


def is_ours(tags: Mapping[str, str]) -> bool:
    """Return whether a description is absent, or is what was written here last."""
    note = tags.get(NOTE_TAG)
    return note is None or tags.get(OURS_TAG) == _digest(note)


def note_tags(note: str) -> dict[str, str]:
    """Return the tags of a description."""
    text = redacted(note)[:NOTE_LENGTH]
    return {NOTE_TAG: text, OURS_TAG: _digest(text)}


def mark_of(own: Annotations) -> str:
    """Return the value of `ANNOTATED_TAG`, empty if there is neither a note nor a tag."""
    if own == Annotations():
        return ""
    return " ".join([_digest(repr((_markdown(own.note), sorted(own.tags.items())))), *sorted(own.tags)])


def annotation_tags(
    present: Mapping[str, str], own: Annotations, description: str | None
) -> tuple[dict[str, str], list[str]]:
    """Return the tags to set in a run that has the tags `present`, and the keys of earlier ones to delete.

    `description` stands below the user's note; None: what stands there now.
    """
    tags = {**own.tags, **({ANNOTATED_TAG: mark} if (mark := mark_of(own)) else {})}
    before = [*present.get(ANNOTATED_TAG, "").split()[1:], ANNOTATED_TAG]
    outdated = [key for key in before if key in present and key not in tags]
    if is_ours(present):
        text = present.get(NOTE_TAG, "").rpartition(RULE)[2] if description is None else description
        tags |= note_tags(f"{_markdown(own.note)}{RULE}{text}" if own.note else text)
    return tags, outdated


def _markdown(note: str) -> str:
    """Return a user's note, which is plain text."""
    return "\n".join(map(in_markdown, note.split("\n")))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
