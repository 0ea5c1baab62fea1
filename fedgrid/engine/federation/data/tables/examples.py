"""Rows of a table as examples: numbers with a class and, if the table has them, client, group and subject.

Rows and columns stay in their order.

Shapes: R rows, N rows of the pool, L classes.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedgrid.engine.federation.data.assigned import NUMBER, grouped, in_order, numbered, of_clients
from fedgrid.engine.federation.data.images import ImageSet, Labels, Pair, Subjects
from fedgrid.engine.federation.data.names import DROP, TARGET, composed
from fedgrid.engine.federation.data.server_share import FIFTH, draw_tests
from fedgrid.engine.federation.data.tables.columns import (
    CLIENT,
    GROUP,
    INDEX,
    LABEL,
    SUBJECT,
    TEST,
    TO_SKIP,
    Bools,
    Options,
    Rows,
    Table,
    check_levels,
    missing,
    require_texts,
    roles_of,
    rows_of,
    targets_of,
)
from fedgrid.engine.federation.data.tables.left_out import find_left_out
from fedgrid.engine.federation.errors import ConfigError, DataError, abbreviate
from fedgrid.engine.federation.inputs import Inputs

YES, NO = ("true", "1", "yes"), ("false", "0", "no", "")


@dataclass(frozen=True)
class Examples:
    """What a table is to a run."""

    pair: Pair
    inputs: Inputs
    class_names: tuple[str, ...]
    notes: tuple[str, ...]
    """In one line each what a user may not expect."""


def examples(table: Table, options: Options, *, without_rows: bool = False) -> Examples:
    """Return the pool and the server's test set of a table; `without_rows` all but what is learned from.

    Raises:
        ConfigError: a column that the options name is not there.
        DataError: a value is missing or impossible, or nothing is left to learn from.
    """
    source, roles = options.source, roles_of(table.names, options)
    for role, name in roles.items():
        if name in table.others:
            raise ConfigError(
                f"{source}: column {name} has {table.others[name]}, and a {role} is a number or a text; name "
                f"another column, #{role}=COLUMN",
                ("dataset",),
            )
    left_out: list[str] = []
    if options.skips or options.min_rows:
        is_out_R, left_out = find_left_out(table, options, roles, _marks(table, options, roles))
        table = table.take(~is_out_R)
        options = replace(options, numbers_R=1 + np.flatnonzero(~is_out_R))
    texts = {role: table.texts(name) for role, name in roles.items()}
    for role in (LABEL, GROUP, SUBJECT):
        instead = TO_SKIP if role == LABEL else ""
        require_texts(table, options, roles.get(role), texts.get(role, []), instead)
    label_R, class_names = _labels(table, options, roles, texts)
    subject_R = None
    if SUBJECT in roles:
        subjects = composed(sorted(set(texts[SUBJECT])))
        subject_R = numbered(texts[SUBJECT], list(dict.fromkeys(subjects)))
    is_test_R, notes = _tests(table, options, roles, texts, label_R, subject_R)
    rows = _rows(table, options, roles.values(), is_test_R)
    held, tested = np.flatnonzero(~is_test_R), np.flatnonzero(is_test_R)
    pool, test = (
        ImageSet(
            np.empty((len(part), 0), np.uint8) if without_rows else rows.read(part),
            label_R[part],
            subjects=None if subject_R is None else subject_R[part],
            vocabulary=rows.inputs.vocabulary,
            padding=rows.inputs.padding,
        )
        for part in (held, tested)
    )
    groups = [texts[GROUP][row] for row in held] if GROUP in roles else None
    if groups is not None:
        pool, test = grouped((pool, test), groups, [texts[GROUP][row] for row in tested])
    if CLIENT in roles:
        clients = [texts[CLIENT][row] for row in held]
        if "" in clients:
            error = missing(options, roles[CLIENT], int(held[clients.index("")]), table)
            raise DataError(f"{error}; {TO_SKIP}")
        if tested_only := in_order({*composed(texts[CLIENT])} - {*composed(clients), ""}):
            notes.append(f"{source}: only test rows have the {roles[CLIENT]} {abbreviate(tested_only)}")
        assigned = of_clients(Path(source).name, clients, groups)
        pool = replace(pool, assigned=assigned)
        if groups is not None and not assigned.group_names:
            notes.append(f"{source}: a {roles[CLIENT]} has rows of several groups, so it is in none")
    absent = () if TARGET in roles else _absent(source, roles[LABEL], class_names, pool, test)
    return Examples((pool, test), rows.inputs, class_names, (*left_out, *notes, *rows.notes, *absent))


def _labels(
    table: Table, options: Options, roles: Mapping[str, str], texts: Mapping[str, Sequence[str]]
) -> tuple[Labels, tuple[str, ...]]:
    """Return the labels of all rows and the names of the classes; of numbers to predict, the column's."""
    if not next(iter(texts.values())):
        raise DataError(f"{options.source} has no row, only columns; add some")
    if TARGET in roles:
        return targets_of(table, options, roles[TARGET]), (roles[TARGET],)
    class_names = _class_names(table, options, roles[LABEL], texts[LABEL])
    return numbered(texts[LABEL], class_names), class_names


def _rows(table: Table, options: Options, roles: Collection[str], is_test_R: Bools) -> Rows:
    left = [name for name in table.names if name not in (*roles, *options.dropped)]
    index = [name for name in left if name in table.index or INDEX.fullmatch(name)]
    left = [options.input] if options.input else [name for name in left if name not in index]
    if not left:
        raise DataError(f"{options.source} has no column to learn from, only {', '.join(roles)}; add some")
    rows = table.encode(left, is_test_R) or rows_of(table, options, left, is_test_R)
    if not index or options.input:
        return rows
    called = abbreviate([name or "without a name" for name in index])
    note = f"{options.source}: nothing is learned from the index of the rows, column {called}"
    return replace(rows, notes=(*rows.notes, note))


def _class_names(table: Table, options: Options, name: str, labels: Sequence[str]) -> tuple[str, ...]:
    if name in table.classes:
        return tuple(composed(table.classes[name]))
    names = in_order(set(labels))
    if len(names) < 2:
        raise DataError(f"{options.source}: column {name} has one class, {names[0]}; name a column with more")
    instead = "name the column of the classes"
    if all(map(NUMBER.fullmatch, names)):
        instead += f", or have its numbers predicted: #{TARGET}={name}"
    check_levels(options, name, names, len(labels), instead)
    return tuple(names)


def _tests(
    table: Table,
    options: Options,
    roles: Mapping[str, str],
    texts: Mapping[str, Sequence[str]],
    label_R: Labels,
    subject_R: Subjects | None,
) -> tuple[Bools, list[str]]:
    """Return which rows are the server's test set, and how that came."""
    source, is_test_R = options.source, _marks(table, options, roles)
    if is_test_R is None:
        is_test_R = draw_tests(source, label_R, options.share or FIFTH, subject_R)
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


def _marks(table: Table, options: Options, roles: Mapping[str, str]) -> Bools | None:
    """Return which rows are marked as the server's test set; None: nothing says it."""
    if table.is_test_R is not None or TEST not in roles:
        return table.is_test_R
    name, marks = roles[TEST], table.texts(roles[TEST])
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


def _absent(
    source: str, name: str, class_names: Sequence[str], pool: ImageSet, test: ImageSet
) -> Iterator[str]:
    """Yield a note on classes that are not everywhere."""
    for part, called in ((pool, "training"), (test, "test")):
        missing = sorted(set(range(len(class_names))) - set(part.labels.tolist()))
        if missing:
            names = abbreviate([class_names[label] for label in missing])
            yield f"{source}: no {called} row has the {name} {names}"
    if pool.assigned is not None:
        clients_L = Counter(
            label for held in pool.assigned.held_K for label in np.unique(pool.labels[held]).tolist()
        )
        alone = [class_names[label] for label, clients in sorted(clients_L.items()) if clients == 1]
        if alone and pool.assigned.num_clients > 1:
            yield f"{source}: one client alone has the {name} {abbreviate(alone)}"
