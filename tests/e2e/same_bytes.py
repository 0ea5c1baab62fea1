"""Whether this checkout computes the same bytes as another commit: what a change must not alter.

    python -m tests.e2e.same_bytes 66eb98e [--only NAME ...]

Trains a list of small runs on digits (`same_bytes_runs`) with the code of that commit, in a worktree, and
with this checkout, on this machine, one beside the other; then explains, attacks and trains centrally. Prints
what differs in records and states, by column and tensor, whatever files a run's folder has them in. Bits
differ between processors, so the repository holds nothing to compare with. Exit code 0 if nothing differs, 1
if something does, 2 if a side did not run.

A difference that is meant stands in `MEANT`; a column with another name than in earlier commits in `COLUMNS`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tests.e2e.same_bytes_runs import HERE, OLD_NAMES, names

FILES = ("*.parquet", "*.safetensors", "attacks/*-????????????.json")
NOT_COMPARED = {"cache", "store", "mlartifacts"}
"""Folders of a storage. The round cache holds what was slow to compute, so not the same every time."""
CLOCKS = ("timings", "seconds", "computed_by")
"""Beginnings of names of files and columns that differ from run to run."""
IDS = ("seconds", "sha256", "run_id", "format", "layout", "state")
"""Ends of keys of JSON files that differ from run to run, or with the format or the layout: the state itself
is compared."""
CHECKSUMS = "files."
"""Beginning of keys with the checksums of further files of an analysis, which earlier commits lack."""
DIGEST = re.compile(r"[0-9a-f]{12}")
RECORDS = re.compile(r"(rounds|clients)(-\d{6,})?(-\d{6,}-[0-9a-f]{8})?\.parquet")
"""The files of a table of a run: one, or several of a run that is not finished, by their first rounds."""
OF_RUN = re.compile(rf"{RECORDS.pattern}|state-.+\.safetensors")
MANIFEST = "manifest.json"
"""Lists the files of a run; earlier commits have none, and all files of a run's folder are its own."""
COLUMNS: dict[str, str] = {
    f"{test}_{score}": f"{now}_{score.replace('f1_own', 'f1')}"
    for test, now in {
        **{test: test for test in ("local_own", "local_server", "global_own")},
        **{"cluster_own": "personalised", "cluster_server": "generalised", "global_server": "global"},
    }.items()
    for score in ("loss", "accuracy", "f1_union", "f1_own", "balanced_accuracy", "recall")
}
"""Column of earlier commits -> its name in this checkout."""
NEW_COLUMNS = ("group",)
"""Columns that earlier commits lack."""
CENTRALISED = "centralised"
"""In the path of a centralised training's files."""
EPOCHS = "epochs.parquet", "rounds.parquet"
"""Its records before it was a run, and since."""
OF_CLIENT = {
    "loss": "train_loss",
    "accuracy": "train_accuracy",
    "server_accuracy": "generalised_accuracy",
    "server_f1": "generalised_f1",
}
OF_ROUND = ("epoch", "update_l2", "update_l2_state", "weights_l1_change")
"""Columns then -> those of `clients.parquet` now, and those of `rounds.parquet`. Not `server_loss`: it is now
of the model that is stored, the one before plus the update, and differs in its eleventh digit."""
MEANT: dict[str, str] = {}
"""Beginning of a printed line, `run, file: column` -> why that differs from earlier commits."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table, a tensor or a value of a JSON file."""

    type: str
    values: NDArray[Any]
    """A tensor's, flat; of others texts from which the bits can be had back."""

    @property
    def bits(self) -> NDArray[Any]:
        """The values such that NaN equals NaN, and 0.0 is not -0.0."""
        return self.values if self.values.dtype == object else self.values.view(f"u{self.values.itemsize}")


Content = dict[str, Column]
File = tuple[str, str]
"""A run's name in the list, and a file's in the run's folder, without ids."""


def contents(folder: Path) -> dict[File, Content]:
    """Return what stands in the files of a side.

    Raises:
        ValueError: two files of a run have the same name but for ids.
    """
    paths: dict[File, list[Path]] = {}
    found: dict[File, Content] = {}
    for path in sorted(path for pattern in FILES for path in folder.rglob(pattern) if _is_listed(path)):
        name, *rooms = path.relative_to(folder).parts
        if NOT_COMPARED & {*rooms} or path.name.startswith(CLOCKS):
            continue
        if CENTRALISED in str(path):
            if path.name in EPOCHS:
                found[name, "centralised, epochs"] = _epochs(path)
            continue
        run = next((above for above in path.parents if (above / "config.json").exists()), path.parent)
        record = RECORDS.fullmatch(path.name)
        shown = path.with_name(f"{record[1]}.parquet") if record else path
        file = name, DIGEST.sub("ID", f"{_algorithm(run)}, {shown.relative_to(run)}")
        if file in paths and (not record or path.parent != paths[file][0].parent):
            raise ValueError(f"{name}: two files {file[1]}")
        paths.setdefault(file, []).append(path)
    return found | {file: _content(of_file) for file, of_file in paths.items()}


def _is_listed(path: Path) -> bool:
    """Return whether a file counts: those of a run do if its manifest, if it has one, lists them."""
    manifest = path.with_name(MANIFEST)
    if not OF_RUN.fullmatch(path.name) or not manifest.exists():
        return True
    return path.name in json.loads(manifest.read_text())["files"]


def _epochs(path: Path) -> Content:
    """Return the records of a centralised training, in the columns that it had before it was a run."""
    table = pq.read_table(path)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    if path.name == EPOCHS[1]:
        clients = pq.read_table(path.with_name("clients.parquet"))
        by_name = {COLUMNS.get(name, name): clients[name] for name in clients.column_names}
        columns |= {name: by_name[column].to_pylist() for name, column in OF_CLIENT.items()}
        columns["epoch"] = columns["round"]
    return {name: _column("number", columns[name]) for name in (*OF_CLIENT, *OF_ROUND)}


def _algorithm(run: Path) -> str:
    if not (run / "config.json").exists():
        return run.name
    found = json.loads((run / "config.json").read_text())["algorithm"]["name"]
    return next((name for name, old in OLD_NAMES.items() if old == found), found)


def _content(paths: Sequence[Path]) -> Content:
    path = paths[0]
    if path.suffix == ".safetensors":
        return {
            name: Column(f"{array.dtype} {array.shape}", array.ravel())
            for name, array in load_file(path).items()
        }
    if path.suffix == ".json":
        return {key: _column("value", [value]) for key, value in _leaves(json.loads(path.read_text()), "")}
    table = _joined(paths)
    return {
        COLUMNS.get(name, name): _column(str(table[name].type), table[name].to_pylist())
        for name in table.column_names
        if not name.startswith(CLOCKS) and name not in NEW_COLUMNS
    }


def _joined(paths: Sequence[Path]) -> pa.Table:
    """Return the rows of a table that may be in several files; rounds of an earlier file count once."""
    first, *others = sorted(paths, key=lambda path: (not path.stem.isalpha(), path.name))
    table = pq.read_table(first)
    for path in others:
        rows = pq.read_table(path)
        table = pa.concat_tables([table, rows.filter(pc.field("round") > pc.max(table["round"]))])
    return table


def _column(type_: str, values: Sequence[Any]) -> Column:
    return Column(type_, np.array([repr(value) for value in values], dtype=object))


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{key}.{step}" if key else str(step))
    elif not key.endswith(IDS) and not key.startswith(CHECKSUMS):
        yield key, value


def differences(before: Mapping[File, Content], now: Mapping[File, Content]) -> Iterator[tuple[str, str]]:
    """Yield (run, what differs) for each file that only one side has, and each column or tensor."""
    for run, file in sorted({*before, *now}):
        one, other = before.get((run, file)), now.get((run, file))
        if one is None or other is None:
            yield run, f"{file}: only {'now' if one is None else 'before'}"
            continue
        for name in dict.fromkeys([*one, *other]):
            if (found := _difference(name, one, other)) is not None:
                yield run, f"{file}: {name}{found}"


def _difference(name: str, one: Content, other: Content) -> str | None:
    """Return where a column differs first, and both values; None if it does not."""
    if name not in one or name not in other:
        return f" only {'before' if name in one else 'now'}"
    before, now = one[name], other[name]
    if before.type != now.type:
        return f": {before.type} before, {now.type} now"
    if len(before.values) != len(now.values):
        return f": {len(before.values)} values before, {len(now.values)} now"
    differ = np.flatnonzero(before.bits != now.bits)
    if not len(differ):
        return None
    row = int(differ[0])
    at = [f"{key} {other[key].values[row]}" for key in ("round", "client") if _is_beside(other, key, now)]
    return (
        f", {len(differ)} of {len(now.values)} differ, the first at {', '.join(at) or f'entry {row}'}: "
        f"{before.values[row]} before, {now.values[row]} now"
    )


def _is_beside(content: Content, key: str, column: Column) -> bool:
    return key in content and len(content[key].values) == len(column.values)


def compare(commit: str, only: list[str]) -> int:
    """Run both sides, print what differs and return the exit code."""
    with TemporaryDirectory(prefix="same-bytes-") as scratch:
        old, folder = Path(scratch, "tree"), Path(scratch)
        git = ["git", "-C", str(HERE), "worktree"]
        if subprocess.run([*git, "add", "--quiet", "--detach", old, commit]).returncode:
            return 2
        try:
            sides = [_started(tree, folder / name, only) for tree, name in ((old, "before"), (HERE, "now"))]
            codes = [process.wait() for process in sides]
        finally:
            subprocess.run([*git, "remove", "--force", old], check=True)
        for name, code in zip(("before", "now"), codes, strict=True):
            if code:
                print(f"{name} did not run:\n{(folder / name / 'log.txt').read_text()[-2000:]}")
        if any(codes):
            return 2
        before, now = contents(folder / "before"), contents(folder / "now")
    return _report(list(differences(before, now)), now)


def _report(found: Sequence[tuple[str, str]], now: Mapping[File, Content]) -> int:
    unexpected = 0
    for run, rest in found:
        line = f"{run}, {rest}"
        reason = next((MEANT[start] for start in MEANT if line.startswith(start)), None)
        unexpected += reason is None
        print(line if reason is None else f"{line} (meant: {reason})")
    print(f"{len({run for run, _ in now})} entries, {len(now)} files: ", end="")
    print(f"{unexpected} unexpected differences" if unexpected else "all the same")
    return 1 if unexpected else 0


def _package_of(tree: Path) -> Path:
    """Return the folder in which a tree's package lies; in earlier commits it was `src`."""
    return tree / "src" if (tree / "src").exists() else tree


def _started(tree: Path, folder: Path, only: list[str]) -> "subprocess.Popen[bytes]":
    folder.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FEDGRID", "MLFLOW"))},
        **{"PYTHONPATH": f"{_package_of(tree)}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1"},
        "FEDGRID_CACHE": str(folder / "user"),
    }
    command = [sys.executable, "-P", "-m", "tests.e2e.same_bytes_runs", str(tree), str(folder), *only]
    with (folder / "log.txt").open("w") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(prog="python -m tests.e2e.same_bytes", description=__doc__)
    options.add_argument("commit", help="compare with this commit")
    options.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="only these entries of the list"
    )
    given = options.parse_args()
    if unknown := [name for name in given.only if name not in names()]:
        options.error(f"no entry {unknown[0]!r}; known: {', '.join(names())}")
    sys.exit(compare(given.commit, given.only))


if __name__ == "__main__":
    main()
