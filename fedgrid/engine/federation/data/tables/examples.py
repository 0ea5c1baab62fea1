"""Rows of a table as examples: numbers with a class and, if the table has them, client, group and subject.

Rows and columns stay in their order. Options leave rows out: without a label or a client, or of a client that
has few. The rest is read as if the file had no other rows. A row that is marked for the server's test set
needs no client, and does not count as one of its client's.

Shapes: R rows, N rows of the pool, L classes, U clients.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.dataset import DataSource, Facts
from fedgrid.engine.federation.data.images import ImageSet, Labels, Pair, Subjects
from fedgrid.engine.federation.data.names import DROP, NUMBER, TARGET, compose_accents, sort_names
from fedgrid.engine.federation.data.partition import assign_clients, number_names
from fedgrid.engine.federation.data.server_share import DEFAULT_SHARE, draw_test_rows
from fedgrid.engine.federation.data.tables.columns import (
    INDEX,
    Bools,
    Rows,
    Table,
    check_levels,
    check_no_gaps,
    make_rows,
    missing_value_error,
    read_targets,
)
from fedgrid.engine.federation.data.tables.encodings import encode_column
from fedgrid.engine.federation.data.tables.options import (
    CLIENT,
    GROUP,
    LABEL,
    MIN_ROWS,
    MISSING,
    SKIP,
    SUBJECT,
    TEST,
    TO_SKIP,
    TableOptions,
    find_roles,
)
from fedgrid.engine.federation.errors import ConfigError, DataError, abbreviate_names
from fedgrid.engine.federation.inputs import DTYPES

YES, NO = ("true", "1", "yes"), ("false", "0", "no", "")
"""Marks of the column `test`, in small letters."""


def open_table(table: Table, options: TableOptions) -> DataSource:
    """Find the facts of a table, and build the function that reads its pool and test set.

    Raises:
        ConfigError: a column that the options name is not there.
        DataError: a value is missing or impossible, or nothing is left to learn from.
    """
    source, roles = options.source, find_roles(list(table.columns), options)
    for role, name in roles.items():
        if other := table.columns[name].other_kind:
            raise ConfigError(
                f"{source}: column {name} has {other}, and a {role} is a number or a text; name another "
                f"column, #{role}=COLUMN",
                ("dataset",),
            )
    # 1. Leave rows out, before anything is counted or drawn.
    left_out: list[str] = []
    if options.skips or options.min_rows:
        is_out_R, left_out = find_dropped_rows(table, options, roles, _read_marks(table, options, roles))
        table = table.take(~is_out_R)
        options = replace(options, numbers_R=1 + np.flatnonzero(~is_out_R))
    # 2. Read classes, subjects and the server's test rows.
    texts = {role: table.columns[name].texts() for role, name in roles.items()}
    for role in (LABEL, GROUP, SUBJECT):
        instead = TO_SKIP if role == LABEL else ""
        check_no_gaps(table, options, roles.get(role), texts.get(role, []), instead)
    label_R, class_names = _number_labels(table, options, roles, texts)
    subject_R = None
    if SUBJECT in roles:
        subjects = compose_accents(sorted(set(texts[SUBJECT])))
        subject_R = number_names(texts[SUBJECT], list(dict.fromkeys(subjects)))
    is_test_R, notes = _choose_tests(table, options, roles, texts, label_R, subject_R)
    # 3. Encode the columns that have no role; the offsets and texts of the pool decide.
    rows = _encode_rows(table, options, roles.values(), is_test_R)
    held, tested = np.flatnonzero(~is_test_R), np.flatnonzero(is_test_R)
    pool, test = (
        ImageSet(
            np.empty((0, *rows.inputs.shape), DTYPES[rows.inputs.kind]),
            label_R[part],
            subjects=None if subject_R is None else subject_R[part],
            vocabulary=rows.inputs.vocabulary,
            padding=rows.inputs.padding,
        )
        for part in (held, tested)
    )
    # 4. Number groups and clients, which only rows of the pool can name.
    groups = [texts[GROUP][row] for row in held] if GROUP in roles else None
    if groups is not None:
        pool, test = _add_groups((pool, test), groups, [texts[GROUP][row] for row in tested])
    if CLIENT in roles:
        clients = [texts[CLIENT][row] for row in held]
        if "" in clients:
            error = missing_value_error(options, roles[CLIENT], int(held[clients.index("")]), table)
            raise DataError(f"{error}; {TO_SKIP}")
        if tested_only := sort_names({*compose_accents(texts[CLIENT])} - {*compose_accents(clients), ""}):
            notes.append(f"{source}: only test rows have the {roles[CLIENT]} {abbreviate_names(tested_only)}")
        assigned = assign_clients(Path(source).name, clients, groups)
        pool = replace(pool, assigned=assigned)
        if groups is not None and not assigned.group_names:
            notes.append(f"{source}: a {roles[CLIENT]} has rows of several groups, so it is in none")
    absent = () if TARGET in roles else _note_absent_classes(source, roles[LABEL], class_names, pool, test)
    facts = Facts(
        num_classes=len(class_names),
        inputs=rows.inputs,
        pool_size=len(pool),
        num_groups=len(pool.group_names) or None,
        class_names=class_names,
        assigned=pool.assigned,
        notes=(*left_out, *notes, *rows.notes, *absent),
    )
    return facts, lambda: (replace(pool, images=rows.read(held)), replace(test, images=rows.read(tested)))


def _add_groups(pair: Pair, pool_groups: Sequence[str], test_groups: Sequence[str]) -> Pair:
    """Add groups to the examples; to those of the test set only where the pool has all of them."""
    names = sort_names(set(pool_groups))
    pool, test = pair
    pool = replace(pool, groups=number_names(pool_groups, names), group_names=tuple(names))
    if set(compose_accents(test_groups)) <= set(names):
        test = replace(test, groups=number_names(test_groups, names), group_names=tuple(names))
    return pool, test


def _number_labels(
    table: Table, options: TableOptions, roles: Mapping[str, str], texts: Mapping[str, Sequence[str]]
) -> tuple[Labels, tuple[str, ...]]:
    """Number the classes of all rows, and name them; or read the numbers to predict."""
    if not next(iter(texts.values())):
        raise DataError(f"{options.source} has no row, only columns; add some")
    if TARGET in roles:
        return read_targets(table, options, roles[TARGET]), (roles[TARGET],)
    class_names = _find_class_names(table, options, roles[LABEL], texts[LABEL])
    return number_names(texts[LABEL], class_names), class_names


def _encode_rows(table: Table, options: TableOptions, roles: Collection[str], is_test_R: Bools) -> Rows:
    """Encode the columns that are left, without those that only number the rows."""
    left = [name for name in table.columns if name not in (*roles, *options.dropped)]
    index = [name for name in left if name in table.index or INDEX.fullmatch(name)]
    left = [options.input] if options.input else [name for name in left if name not in index]
    if not left:
        raise DataError(f"{options.source} has no column to learn from, only {', '.join(roles)}; add some")
    encoded = encode_column(table, options, left, is_test_R) if options.is_saved else None
    rows = encoded or make_rows(table, options, left, is_test_R)
    if not index or options.input:
        return rows
    called = abbreviate_names([name or "without a name" for name in index])
    note = f"{options.source}: nothing is learned from the index of the rows, column {called}"
    return replace(rows, notes=(*rows.notes, note))


def _find_class_names(
    table: Table, options: TableOptions, name: str, labels: Sequence[str]
) -> tuple[str, ...]:
    """Find the names of the classes, in the order of their numbers: as the format lists them, or sorted."""
    if classes := table.columns[name].classes:
        return tuple(compose_accents(classes))
    names = sort_names(set(labels))
    if len(names) < 2:
        raise DataError(f"{options.source}: column {name} has one class, {names[0]}; name a column with more")
    instead = "name the column of the classes"
    if all(map(NUMBER.fullmatch, names)):
        instead += f", or have its numbers predicted: #{TARGET}={name}"
    check_levels(options, name, names, len(labels), instead)
    return tuple(names)


def _choose_tests(
    table: Table,
    options: TableOptions,
    roles: Mapping[str, str],
    texts: Mapping[str, Sequence[str]],
    label_R: Labels,
    subject_R: Subjects | None,
) -> tuple[Bools, list[str]]:
    """Choose the rows of the server's test set, by marks or by a draw, and note how.

    Args:
        table: the table.
        options: the user's options.
        roles: role -> column.
        texts: role -> texts of all rows.
        label_R: the labels, as numbers.
        subject_R: the subject of each row; None: no column has subjects.

    Raises:
        DataError: a subject has rows on both sides.
    """
    source, is_test_R = options.source, _read_marks(table, options, roles)
    if is_test_R is None:
        is_test_R = draw_test_rows(source, label_R, options.share or DEFAULT_SHARE, subject_R)
        unit = "rows" if subject_R is None else f"rows, by {roles[SUBJECT]},"
        return is_test_R, [
            f"{source}: {is_test_R.sum()} of {len(label_R)} {unit} are drawn as the server's test set; a "
            f"column {TEST} would name others"
        ]
    if subject_R is not None:
        both = np.intersect1d(subject_R[is_test_R], subject_R[~is_test_R])
        if both.size:
            subject = texts[SUBJECT][int(np.argmax(subject_R == both[0]))]
            raise DataError(
                f"{source}: {roles[SUBJECT]} {subject} has rows in the server's test set and in the pool; "
                "mark all of them or none"
            )
    return is_test_R, []


def _read_marks(table: Table, options: TableOptions, roles: Mapping[str, str]) -> Bools | None:
    """Read the marks of the server's test set; None if neither the format nor a column has any."""
    # Data that the package `datasets` has saved are marked by their splits.
    if table.is_test_R is not None or TEST not in roles:
        return table.is_test_R
    name, marks = roles[TEST], table.columns[roles[TEST]].texts()
    for row, mark in enumerate(marks):
        if mark.lower() not in (*YES, *NO):
            raise DataError(
                f"{options.source}: row {options.number_row(row)} has '{mark}' in column {name}; allowed: "
                f"{', '.join(YES)}, {', '.join(NO)}nothing"
            )
    is_test_R = np.array([mark.lower() in YES for mark in marks], bool)
    if is_test_R.all() or not is_test_R.any():
        share = "all rows" if is_test_R.all() else "no row"
        raise DataError(
            f"{options.source}: column {name} marks {share} as the server's test set; mark some, or "
            f"#{DROP}={name} has a fifth drawn"
        )
    return is_test_R


def _note_absent_classes(
    source: str, name: str, class_names: Sequence[str], pool: ImageSet, test: ImageSet
) -> Iterator[str]:
    """Yield a note on each list of classes that a part lacks, or that a single client has."""
    for part, called in ((pool, "training"), (test, "test")):
        missing = sorted(set(range(len(class_names))) - set(part.labels.tolist()))
        if missing:
            names = abbreviate_names([class_names[label] for label in missing])
            yield f"{source}: no {called} row has the {name} {names}"
    if pool.assigned is not None:
        clients_L = Counter(
            label for held in pool.assigned.held_K for label in np.unique(pool.labels[held]).tolist()
        )
        held_once = [class_names[label] for label, clients in sorted(clients_L.items()) if clients == 1]
        if held_once and pool.assigned.num_clients > 1:
            yield f"{source}: one client alone has the {name} {abbreviate_names(held_once)}"


def find_dropped_rows(
    table: Table, options: TableOptions, roles: Mapping[str, str], is_test_R: Bools | None
) -> tuple[Bools, list[str]]:
    """Find the rows that options leave out, and note how many they are, and why.

    Args:
        table: the table.
        options: the user's options.
        roles: role -> column.
        is_test_R: marks the rows of the server's test set; None: a share is drawn later.

    Returns:
        Shape (R,), True for a row that is left out; and the notes.

    Raises:
        ConfigError: clients with few rows cannot be left out, as no column has clients.
        DataError: no row, no client, or no row of the server's test set is left.
    """
    texts = {
        role: np.array(compose_accents(table.columns[roles[role]].texts()), np.str_)
        for role in (TARGET, LABEL, CLIENT)
        if role in roles
    }
    is_held_R = np.ones(len(next(iter(texts.values()))), bool) if is_test_R is None else ~is_test_R
    is_out_R, notes = np.zeros(len(is_held_R), bool), []
    if options.skips:
        counts = {}
        # Each row counts under the first reason alone, so that the numbers in the note add up.
        for role, role_texts in texts.items():
            is_missing_R = (role_texts == "") & ~is_out_R & (is_held_R | (role != CLIENT))
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
        is_small_R, small_notes = _find_small_clients(options, texts[CLIENT], is_held_R & ~is_out_R)
        is_out_R |= is_small_R
        notes += small_notes
    return is_out_R, notes


def _find_small_clients(
    options: TableOptions, client_R: NDArray[np.str_], is_held_R: Bools
) -> tuple[Bools, list[str]]:
    """Find the rows of clients that have fewer than `min_rows`, and write a note, if there are any."""
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
        f"and {is_small_R.sum()} of {is_held_R.sum()} rows: {abbreviate_names(small)}"
    ]
