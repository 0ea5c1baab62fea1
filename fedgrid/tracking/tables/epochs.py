"""The epochs of a centralised training: loss, scores on the server's test set, and norms."""

from collections.abc import Mapping
from math import ceil

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table

COLUMNS = {
    "loss": ("loss", ".4f"),
    "accuracy": ("accuracy", ".3f"),
    "server_accuracy": ("server accuracy", ".3f"),
    "server_f1": ("server F1", ".3f"),
    "update_l2": ("update L2", ".4g"),
    "update_l2_state": ("update L2 of state", ".4g"),
    "weights_l1_change": ("weights' L1 change", ".4g"),
}
"""Column -> heading and format."""
CAPTION = (
    "Loss and accuracy on the pool, as the model changes; server: on its test set. Update L2: Euclidean norm "
    "of an epoch's update over the parameters, as Sattler's test takes it. Weights' L1 change: what the "
    "published epsilons were derived from, and not comparable with that test."
)


def build_epochs_table(name: str, epochs: Mapping[str, Array], max_rows: int | None = None) -> Table:
    """Build a table with a row for each epoch; with `most` rows at most, evenly chosen, and the last.

    `epochs` has the columns of `COLUMNS` and `epoch`, each of shape (E,).
    """
    shown = dict(COLUMNS)
    if np.array_equal(epochs["update_l2"], epochs["update_l2_state"]):
        # Without buffers, as in models without batch normalisation, both norms are the same column.
        del shown["update_l2_state"]
    last = len(epochs["epoch"]) - 1
    # The last epoch is always a row, so the others share what is left of `most`.
    step = 1 if max_rows is None else max(1, ceil(last / (max_rows - 1)))
    rows = tuple(
        Row(
            str(int(epochs["epoch"][place])),
            tuple(build_cell(float(epochs[column][place]), kind) for column, (_, kind) in shown.items()),
        )
        for place in [*range(0, last, step), last]
    )
    return Table(
        f"epochs-{name}",
        f"Epochs of {name}",
        CAPTION,
        tuple(Column(heading) for heading, _ in shown.values()),
        rows,
        corner="epoch",
    )


def build_cell(value: float, kind: str) -> Cell:
    """Build the cell of a number in the format `kind`; NaN is a dash."""
    return Cell(NONE) if np.isnan(value) else Cell(f"{value:{kind}}", value)
