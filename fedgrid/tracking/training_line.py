"""The training of a grid's runs in one line: model, optimizer, epochs, batches and weights of clients."""

from collections.abc import Mapping, Sequence

WEIGHTS = {
    "none": "weights none: all clients count alike, in fedavg too",
    "images": "weights images: clients count by their training images",
    "batches": "weights batches: clients count by their batches",
}
"""A run's `weights` -> how means are taken."""
MAX_VALUES = 4
"""Largest number of values of a key that are listed; of more, their number is shown."""


RunKeys = Mapping[str, str]
"""Key of a run's configuration -> value as text."""


def describe_training(runs: Sequence[RunKeys]) -> str:
    """Describe what runs train: `Trained: digitnet, sgd, learning rate 0.1, ...`; empty without runs.

    Where runs differ, the values stand side by side: `learning rate 0.1 or 0.01`.
    """
    if not runs:
        return ""
    parts = (
        _join_values(runs, "model"),
        _join_values(runs, "training.optimizer"),
        f"learning rate {_join_values(runs, 'training.learning_rate')}",
        *_describe_lengths(runs),
        f"batch size {_join_values(runs, 'training.batch_size')}",
        f"rounds {_join_values(runs, 'training.rounds')}",
    )
    weights = (WEIGHTS.get(value, value) for value in _distinct_values(runs, "weights"))
    return f"Trained: {', '.join(parts)}; {'; '.join(weights)}."


def _describe_lengths(runs: Sequence[RunKeys]) -> list[str]:
    """Describe the local epochs of the runs that train whole ones, and the local steps of the others."""
    # A number of steps replaces the epochs, whose value then stands in the configuration without effect.
    steps = [keys for keys in runs if keys.get("training.local_steps", "null") != "null"]
    epochs = [keys for keys in runs if keys not in steps]
    lengths = [f"local epochs {_join_values(epochs, 'training.local_epochs')}"] if epochs else []
    return [*lengths, *([f"local steps {_join_values(steps, 'training.local_steps')}"] if steps else [])]


def _join_values(runs: Sequence[RunKeys], key: str) -> str:
    """Join the values of a key, or count them if there are more than `MAX_VALUES`."""
    values = _distinct_values(runs, key)
    return " or ".join(values) if len(values) <= MAX_VALUES else f"of {len(values)} values"


def _distinct_values(runs: Sequence[RunKeys], key: str) -> list[str]:
    """List the distinct values of a key in the order of the runs."""
    return list(dict.fromkeys(keys[key] for keys in runs if key in keys))
