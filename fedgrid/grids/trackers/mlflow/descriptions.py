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
from fedgrid.engine.runtime.configuration.idle_settings import find_idle_settings
from fedgrid.engine.runtime.integrity.made_with import IMAGES, load_parts
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.trackers.annotations import Annotations
from fedgrid.grids.trackers.mlflow.view import VIEW_KEY, VIEW_TAG
from fedgrid.manifest import Parts
from fedgrid.redaction import escape_markdown, redact_secrets

NAME_LENGTH, DIGEST_LENGTH, NOTE_LENGTH = 500, 36, 8000
"""Limits of MLflow in characters, which its database enforces with an error."""
NOTE_TAG, OURS_TAG = "mlflow.note.content", "fedgrid.note"
"""Tags of a description, and of the digest of the text that fedgrid wrote last: another text is the user's
own."""
ANNOTATED_TAG = "fedgrid.annotated"
"""Tag of a digest of the annotations that were written last, and of the keys of their tags."""
KIND_TAG, KIND = "mlflow.experimentKind", "custom_model_development"
"""Tag of an experiment's kind. Without it, MLflow shows the pages for language models."""
RULE = "\n\n---\n\n"
"""Separator between a user's note and the description below it."""


def describe_experiment(client: Any, experiment_id: str, grid: str, view: str) -> None:
    """Set an experiment's prepared view, and its description unless the user has written one.

    Args:
        client: An `MlflowClient`.
        experiment_id: MLflow's id of the grid's experiment.
        grid: Name of the grid.
        view: Value of `VIEW_TAG`, as `build_view` builds it.
    """
    present = client.get_experiment(experiment_id).tags
    tags = {VIEW_TAG: view, KIND_TAG: present.get(KIND_TAG, KIND)}
    if is_generated_note(present):
        tags |= note_tags(describe_grid(grid, experiment_id))
    for key, value in tags.items():
        # Each tag is a request of its own; most launches change none of them.
        if present.get(key) != value:
            client.set_experiment_tag(experiment_id, key, value)


def describe_grid(name: str, experiment_id: str) -> str:
    """Build the description of a grid's experiment: what it is, how to read it, and the commands."""
    grid, shown = quote(name), escape_markdown(name)
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


def build_metric_table(meanings: Mapping[str, str]) -> str:
    """Build a Markdown table of the metrics of a round.

    Args:
        meanings: Metric's key -> its meaning.
    """
    rows = [f"| `{name}` | {meaning} |" for name, meaning in meanings.items()]
    return "\n".join(["| metric of a round | meaning |", "| --- | --- |", *rows])


def describe_ended_run(config: RunConfig, figures: Sequence[Path], mlflow_run_id: str) -> str:
    """Build the description of a run that has ended: what it is, and its figures.

    Args:
        config: The run's configuration.
        figures: Files that are among the run's artifacts, in the folder `figures`.
        mlflow_run_id: MLflow's id of the run, which the addresses of figures need.
    """
    return "\n\n".join(
        [
            describe_run(config),
            *find_idle_settings(config).values(),
            *(_embed_figure(path, mlflow_run_id) for path in figures),
        ]
    )


def build_dataset_input(config: RunConfig, folder: Path) -> Any:
    """Build MLflow's entity of a run's data set, for the column *Dataset*."""
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

    parts: Parts = ()
    # A damaged manifest leaves the digest "unknown": the next launch repairs the run and logs it again.
    with suppress(DamagedFile):
        parts = load_parts(folder)
    digest = parts[0].made_with.get(IMAGES, "") if parts else ""
    entry = DATASETS.get(config.dataset)
    facts: dict[str, Any] = {"clients": config.clients, "split": config.split.kind}
    if entry is not None and not entry.is_own:
        facts |= {"images": entry.pool_size, "classes": entry.num_classes, "shape": entry.inputs.shape}
    dataset = Dataset(
        config.short_dataset[:NAME_LENGTH],
        digest[:DIGEST_LENGTH] or "unknown",
        source_type="local",
        source=json.dumps({"uri": redact_secrets(config.dataset if entry is None else entry.source)}),
        profile=json.dumps(facts),
    )
    return DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, "training")])


def describe_run(config: RunConfig) -> str:
    """Describe a run in one sentence of Markdown."""
    name, dataset, model = map(escape_markdown, (config.algorithm.name, config.short_dataset, config.model))
    steps, epochs = config.training.local_steps, config.training.local_epochs
    length = f"{epochs} local epochs" if steps is None else f"{steps} local steps"
    title = escape_markdown(registry.find_title(config.algorithm.name))
    return (
        f"**{title}** (`{name}`) on {dataset}, {config.clients} clients, "
        f"{config.split.kind}; seed {config.seed}, {config.training.rounds} rounds, "
        f"{length}, model {model}."
    )


def _embed_figure(path: Path, mlflow_run_id: str) -> str:
    """Format an image of the run's artifacts; its address is relative, so that it works on any server."""
    at = in_address(f"figures/{path.name}", safe="")
    # MLflow's own address of an artifact; a path in the store would not open in a browser.
    return f"![{escape_markdown(path.stem)}](get-artifact?path={at}&run_uuid={mlflow_run_id})"


def is_generated_note(tags: Mapping[str, str]) -> bool:
    """Check whether a description is absent, or still the text that fedgrid wrote last."""
    note = tags.get(NOTE_TAG)
    return note is None or tags.get(OURS_TAG) == _short_digest(note)


def note_tags(note: str) -> dict[str, str]:
    """Build the tags that store a description, without secrets and within MLflow's limit."""
    text = redact_secrets(note)[:NOTE_LENGTH]
    return {NOTE_TAG: text, OURS_TAG: _short_digest(text)}


def compute_annotation_mark(own: Annotations) -> str:
    """Compute the value of `ANNOTATED_TAG`: a digest and the tags' keys, empty without annotations."""
    if own == Annotations():
        return ""
    return " ".join(
        [_short_digest(repr((_escape_note(own.note), sorted(own.tags.items())))), *sorted(own.tags)]
    )


def plan_annotation_tags(
    present: Mapping[str, str], own: Annotations, description: str | None
) -> tuple[dict[str, str], list[str]]:
    """Plan the change of a run's tags in MLflow that shows the user's annotations.

    Args:
        present: Tags that the run has in MLflow now.
        own: The user's note and tags.
        description: Text that stands below the user's note; None for the text that stands there now.

    Returns:
        The tags to set, and the keys of earlier tags to delete.
    """
    tags = {**own.tags, **({ANNOTATED_TAG: mark} if (mark := compute_annotation_mark(own)) else {})}
    # Only keys that the mark lists are deleted: all other tags were set by users in MLflow, or by fedgrid.
    before = [*present.get(ANNOTATED_TAG, "").split()[1:], ANNOTATED_TAG]
    outdated = [key for key in before if key in present and key not in tags]
    if is_generated_note(present):
        text = present.get(NOTE_TAG, "").rpartition(RULE)[2] if description is None else description
        tags |= note_tags(f"{_escape_note(own.note)}{RULE}{text}" if own.note else text)
    return tags, outdated


def _escape_note(note: str) -> str:
    """Escape a user's note, which is plain text, for Markdown."""
    return "\n".join(map(escape_markdown, note.split("\n")))


def _short_digest(text: str) -> str:
    """Compute a digest of 12 hexadecimal digits."""
    return sha256(text.encode()).hexdigest()[:12]
