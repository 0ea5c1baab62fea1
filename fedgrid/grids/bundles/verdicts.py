"""Comparison of a run's records with those of its second computation.

They are the same, have the same decisions, or differ. Numbers are what is stored as a fraction; everything
else (clusters, splits, who took part, bytes) is a decision. Shapes: N rows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isnan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.algorithms.registry import find_paper_row
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import build_folder_path, find_last_round
from fedgrid.engine.runtime.storage.format import load_manifest
from fedgrid.grids.bundles.read_bundle import Bundle
from fedgrid.grids.results.outcome import read_scores
from fedgrid.manifest import CLIENTS, ROUNDS
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.records import read_table
from fedgrid.tracking.scoring.scores import score_run
from fedgrid.tracking.tables.formats import to_csv
from fedgrid.tracking.tables.table import Table

Outcome = Literal["same bytes", "same decisions", "not confirmed", "differs", "not tried"]
TOLERANCE = 1e-6
"""Difference up to which numbers are equal: absolute up to 1, and relative above."""
DRIFT = 1e-4
"""Difference up to which numbers of rounds that are no final scores count as equal: a silhouette amplifies
the last digits of distances. An accuracy that was changed differs by more on any test set of up to ten
thousand rows."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one run. Its fields are printed as JSON."""

    outcome: Outcome
    why: str = ""
    claims: tuple[str, ...] = ()
    """Claims of the bundle about itself for which numbers within the tolerance count as the same."""


SAME_BYTES = Verdict("same bytes")


@dataclass(frozen=True)
class Difference:
    """The first row of a column in which two records differ."""

    round: int
    is_decision: bool
    column: str
    description: str = ""
    """The values there and here."""
    gap: float = np.inf
    """Largest difference in the column."""


def compare_run(run: RunConfig, theirs: Path, ours: Path, elsewhere: Sequence[str]) -> Verdict:
    """Compare a run whose files are in `theirs` with its second computation in `ours`.

    Args:
        run: The run's configuration.
        theirs: Folder of the run in the bundle.
        ours: Folder of its second computation.
        elsewhere: Versions, code or processors in which the two differ, as the bundle says. Only if there are
            any may last bits differ.

    Returns:
        The verdict.
    """
    exact = [*_find_differences(theirs, ours, 0.0)]
    if not exact:
        # Records may be equal to the last digit while the models differ in digits that no test shows.
        names = _list_other_models(run, theirs, ours)
        if names and not elsewhere:
            return Verdict("differs", f"in its final models: {names[0]}")
        return _same_decisions("all numbers are the same, models not", elsewhere) if names else SAME_BYTES
    # On the same versions and processors fedgrid gives the same bits, so there is no tolerance.
    beyond = [*_find_differences(theirs, ours, TOLERANCE)] if elsewhere else exact
    decisions = [difference for difference in beyond if difference.is_decision]
    if elsewhere and not decisions:
        widest = max(beyond, key=lambda one: one.gap, default=None)
        score, gap = _find_final_gap(run, theirs, ours)
        if gap <= TOLERANCE and (widest is None or widest.gap <= DRIFT):
            within = f"numbers within {TOLERANCE:g}"
            if widest is not None:
                within = f"final scores within {TOLERANCE:g}, others {widest.gap:.2g} ({widest.column})"
            return _same_decisions(within, (*elsewhere, *_find_unrecorded(theirs, ours)))
        # Last bits grow from round to round until scores differ. Agreement up to some round, without another
        # decision, neither confirms nor contradicts.
        if last := min((one.round for one in beyond), default=find_last_round(theirs, run) + 1) - 1:
            apart = f"final scores up to {gap:.2g} apart ({score})"
            if widest is not None and gap <= TOLERANCE:
                apart = f"then numbers up to {widest.gap:.2g} apart ({widest.column})"
            return Verdict("not confirmed", "; ".join((f"agrees to round {last} only", apart, *elsewhere)))
    first = min(decisions if elsewhere and decisions else beyond, key=_difference_order)
    reasons = f"from round {first.round} in {first.column}{first.description}", *elsewhere
    return Verdict("differs", "; ".join(reasons))


def _same_decisions(within: str, claims: Sequence[str]) -> Verdict:
    """Build the verdict on a run with the same decisions."""
    return Verdict("same decisions", "; ".join((within, *claims)), (within, *claims))


def _find_final_gap(run: RunConfig, theirs: Path, ours: Path) -> tuple[str, float]:
    """Find the final score in which two records of a run differ most, and by how much; "", 0 if in none."""
    then, now = (score_run(folder, find_paper_row(run.algorithm.name)) for folder in (theirs, ours))
    gaps = {"": 0.0}
    for name in sorted(then.keys() & now.keys()):
        if then[name] != now[name]:
            values = then[name], now[name]
            gaps[name] = np.inf if None in values else abs(then[name] - now[name]) / max(1.0, abs(then[name]))
    widest = max(gaps, key=gaps.__getitem__)
    return widest, gaps[widest]


def _find_unrecorded(theirs: Path, ours: Path) -> list[str]:
    """Describe which columns the records have here, and not there."""
    tables = (
        [read_table(folder, Path(file).stem) for folder in (theirs, ours)] for file in (ROUNDS, CLIENTS)
    )
    columns = [name for there, here in tables for name in here.column_names if name not in there.column_names]
    return [f"not recorded there: {', '.join(dict.fromkeys(columns))}"] if columns else []


def _difference_order(difference: Difference) -> tuple[int, bool]:
    """Compute the sort key of a difference: by round, decisions first."""
    return difference.round, not difference.is_decision


def _list_other_models(run: RunConfig, theirs: Path, ours: Path) -> list[str]:
    """List the files of the final state whose checksums, which the manifests list, differ."""
    one, other = load_manifest(theirs), load_manifest(ours)
    names = (name for each in (one, other) for name in each.states.get(each.rounds_done, ()))
    return sorted({name for name in names if one.files.get(name) != other.files.get(name)})


def _find_differences(theirs: Path, ours: Path, tolerance: float) -> Iterator[Difference]:
    """Yield the first difference of more than a tolerance in each column; a decision has no tolerance."""
    for file in (ROUNDS, CLIENTS):
        if (theirs / file).read_bytes() == (ours / file).read_bytes():
            continue
        one, other = (read_table(folder, Path(file).stem) for folder in (theirs, ours))
        if len(one) != len(other):
            yield Difference(1, True, file, f": {len(one)} rows, here {len(other)}")
            continue
        # A run of an older version may lack columns that are recorded now.
        further = () if tolerance else other.column_names
        for name in dict.fromkeys((*one.column_names, *further)):
            if name not in one.column_names or name not in other.column_names:
                where = "there" if name in one.column_names else "here"
                yield Difference(1, True, name, f", recorded only {where}")
                continue
            is_decision, gaps_N = _compute_gaps_N(one[name].combine_chunks(), other[name].combine_chunks())
            rows = np.flatnonzero(gaps_N > tolerance)
            if len(rows):
                row = int(rows[0])
                client = f" of client {one['client'][row]}" if "client" in one.column_names else ""
                then, now = (_format_value(values[name][row].as_py()) for values in (one, other))
                words, gap = f"{client}: {then}, here {now}", float(gaps_N.max())
                yield Difference(one["round"][row].as_py(), is_decision, name, words, gap)


def _compute_gaps_N(one: pa.Array, other: pa.Array) -> tuple[bool, Array]:
    """Compare two columns; return whether they have decisions, and the difference in each row, shape (N,)."""
    lists = pa.types.is_list(one.type) and one.type == other.type
    if lists and pa.types.is_floating(one.type.value_type):
        # Lists of other lengths are decisions, which the end of this function compares.
        if pc.list_value_length(one).equals(pc.list_value_length(other)):
            _, gaps = _compute_gaps_N(pc.list_flatten(one), pc.list_flatten(other))
            gaps_N = np.zeros(len(one))
            np.maximum.at(gaps_N, pc.list_parent_indices(one).to_numpy(), gaps)
            return False, gaps_N
    elif pa.types.is_floating(one.type) and pa.types.is_floating(other.type):
        then_N, now_N = (np.asarray(values.to_numpy(zero_copy_only=False)) for values in (one, other))
        with np.errstate(invalid="ignore"):
            gaps_N = np.abs(then_N - now_N) / np.maximum(1.0, np.abs(then_N))
        # Infinities are equal to themselves, though their difference is NaN.
        same_N = (then_N == now_N) | (np.isnan(then_N) & np.isnan(now_N))
        return False, np.where(same_N, 0.0, np.where(np.isnan(gaps_N), np.inf, gaps_N))
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return True, np.array([np.inf if then != now else 0.0 for then, now in pairs])


def _format_value(value: object) -> str:
    """Format a value for a message."""
    return f"{value:.9g}" if isinstance(value, float) else f"{value!s:.60}"


def list_other_scores(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """List the names of final scores that only one of two mappings has, or that differ."""
    return [
        name
        for name in sorted(theirs.keys() | ours.keys())
        if not (name in theirs and name in ours and _are_equal(theirs[name], ours[name]))
    ]


def describe_other_scores(bundle: Bundle, run: RunConfig, *, names_too: bool) -> list[str]:
    """Describe which final scores of a run in a bundle do not follow from its records.

    Args:
        bundle: The bundle.
        run: The run's configuration.
        names_too: Whether a score that only the file or only the records give is one of them.
    """
    theirs, ours = (
        bundle.scores[run.run_id],
        read_scores(build_folder_path(bundle.storage.root, run), run.run_id),
    )
    return [
        f"{run.name}: {name} is {theirs.get(name, 'missing')}, by the records {ours.get(name, 'no score')}"
        for name in list_other_scores(theirs, ours)
        if names_too or (name in theirs and name in ours)
    ]


def list_other_tables(tables: Iterable[Table], folder: Path) -> list[str]:
    """List the CSV files of a report's tables, in a folder, that do not follow from the records."""
    texts = {f"{table.name}.csv": to_csv(table) for table in tables}
    there = {file.name: file.read_bytes().decode(errors="replace") for file in folder.glob("*.csv")}
    return [
        name
        for name in sorted(texts.keys() | there.keys())
        if name not in there or name not in texts or not _have_same_cells(texts[name], there[name])
    ]


def _have_same_cells(*texts: str) -> bool:
    """Check whether two CSV files agree, their numbers within the tolerance."""
    one, other = ([*map(_parse_cell, re.split("([,\n])", text))] for text in texts)
    return len(one) == len(other) and all(map(_are_equal, one, other))


def _parse_cell(text: str) -> str | float:
    """Parse a cell as a number, or else keep its text."""
    try:
        return float(text)
    except ValueError:
        return text


def _are_equal(stored: object, computed: object) -> bool:
    """Check whether two values agree, numbers within the tolerance."""
    if isinstance(stored, float) and isinstance(computed, float):
        is_close = isclose(stored, computed, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return is_close or (isnan(stored) and isnan(computed))
    return stored == computed
