"""What the runs of a grid train, in one line: model, optimizer, epochs, batches, and how clients count."""

from collections.abc import Mapping, Sequence

WEIGHTS = {
    "none": "weights none: all clients count alike, in fedavg too",
    "images": "weights images: clients count by their training images",
    "batches": "weights batches: clients count by their batches",
}
"""A run's `weights` -> how means are taken."""
MOST = 4
"""Values of a key that are listed."""


Keys = Mapping[str, str]
"""Of a run: key of its configuration -> value."""


def trained_line(runs: Sequence[Keys]) -> str:
    """Return what runs train: `Trained: digitnet, sgd, learning rate 0.1, ...`; empty without runs.

    Where runs differ, the values stand side by side: `learning rate 0.1 or 0.01`.
    """
    if not runs:
        return ""
    parts = (
        _values(runs, "model"),
        _values(runs, "training.optimizer"),
        f"learning rate {_values(runs, 'training.learning_rate')}",
        *_lengths(runs),
        f"batch size {_values(runs, 'training.batch_size')}",
        f"rounds {_values(runs, 'training.rounds')}",
    )
    weights = (WEIGHTS.get(value, value) for value in _distinct(runs, "weights"))
    return f"Trained: {', '.join(parts)}; {'; '.join(weights)}."


def _lengths(runs: Sequence[Keys]) -> list[str]:
    """Return the local epochs of the runs that train whole ones, and the local steps of the others."""
    steps = [keys for keys in runs if keys.get("training.local_steps", "null") != "null"]
    epochs = [keys for keys in runs if keys not in steps]
    lengths = [f"local epochs {_values(epochs, 'training.local_epochs')}"] if epochs else []
    return [*lengths, *([f"local steps {_values(steps, 'training.local_steps')}"] if steps else [])]


def _values(runs: Sequence[Keys], key: str) -> str:
    values = _distinct(runs, key)
    return " or ".join(values) if len(values) <= MOST else f"of {len(values)} values"


def _distinct(runs: Sequence[Keys], key: str) -> list[str]:
    return list(dict.fromkeys(keys[key] for keys in runs if key in keys))
