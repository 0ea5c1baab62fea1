"""Rows of a table that its options leave out: without a label or a client, or of a client that has few.

The rest is read as if the file had no other rows. A row that is marked for the server's test set needs no
client, and does not count as one of its client's.

Shapes: R rows, U clients.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.names import DROP, TARGET, composed
from fedgrid.engine.federation.data.tables.columns import (
    CLIENT,
    LABEL,
    MIN_ROWS,
    MISSING,
    SKIP,
    TEST,
    Bools,
    Options,
    Table,
)
from fedgrid.engine.federation.errors import ConfigError, DataError, abbreviate


def find_left_out(
    table: Table, options: Options, roles: Mapping[str, str], is_test_R: Bools | None
) -> tuple[Bools, list[str]]:
    """Return which rows are left out, and in one line each how many that are, and why.

    `roles` is role -> column, `is_test_R` are the rows that are marked for the server's test set.

    Raises:
        ConfigError: clients with few rows cannot be left out, as no column has clients.
        DataError: no row, no client, or no row of the server's test set is left.
    """
    texts = {
        role: np.array(composed(table.texts(roles[role])), np.str_)
        for role in (TARGET, LABEL, CLIENT)
        if role in roles
    }
    is_held_R = np.ones(len(next(iter(texts.values()))), bool) if is_test_R is None else ~is_test_R
    is_out_R, notes = np.zeros(len(is_held_R), bool), []
    if options.skips:
        counts = {}
        for role, of_role in texts.items():
            is_missing_R = (of_role == "") & ~is_out_R & (is_held_R | (role != CLIENT))
            counts[roles[role]] = np.count_nonzero(is_missing_R)
            is_out_R |= is_missing_R
        if causes := [f"{count} without {name}" for name, count in counts.items() if count]:
            note = (
                f"{options.source}: {SKIP}={MISSING} leaves out {is_out_R.sum()} of {len(is_out_R)} rows: "
                f"{', '.join(causes)}"
            )
            if is_out_R[is_held_R].all():
                raise DataError(f"{note}; none is left to train on, name another column")
            if is_test_R is not None and is_out_R[is_test_R].all():
                instead = f"#{TEST}=0.2" if table.is_test_R is not None else f"#{DROP}={roles[TEST]}"
                raise DataError(f"{note}; none is left of the server's test set, {instead} has one drawn")
            notes.append(note)
    if options.min_rows:
        if CLIENT not in roles:
            raise ConfigError(
                f"{options.source}: {MIN_ROWS}={options.min_rows} leaves out clients, and no column has any; "
                f"name it, #{CLIENT}=COLUMN, or leave {MIN_ROWS} out",
                ("dataset",),
            )
        is_small_R, of_small = _find_small(options, texts[CLIENT], is_held_R & ~is_out_R)
        is_out_R |= is_small_R
        notes += of_small
    return is_out_R, notes


def _find_small(options: Options, client_R: NDArray[np.str_], is_held_R: Bools) -> tuple[Bools, list[str]]:
    """Return which rows are of clients that have fewer than `min_rows`, and a note, if there are any."""
    is_held_R = is_held_R & (client_R != "")
    names_U, sizes_U = np.unique(client_R[is_held_R], return_counts=True)
    is_small_U = sizes_U < options.min_rows
    if len(names_U) and is_small_U.all():
        largest = int(np.argmax(sizes_U))
        raise DataError(
            f"{options.source}: no client has {MIN_ROWS}={options.min_rows} rows; the largest, "
            f"{names_U[largest]}, has {sizes_U[largest]}; take no more, or leave it out"
        )
    is_small_R = is_held_R & np.isin(client_R, names_U[is_small_U])
    if not is_small_U.any():
        return is_small_R, []
    small = [f"{names_U[u]} ({sizes_U[u]})" for u in np.flatnonzero(is_small_U)]
    return is_small_R, [
        f"{options.source}: {MIN_ROWS}={options.min_rows} leaves out {len(small)} of {len(names_U)} clients "
        f"and {is_small_R.sum()} of {is_held_R.sum()} rows: {abbreviate(small)}"
    ]
