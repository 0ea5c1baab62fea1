"""Whether this checkout computes the same bytes as another commit: what a change must not alter.

    python -m tests.e2e.same_bytes 66eb98e [--only NAME ...]

Trains a list of small runs on digits with the code of that commit, in a worktree, and with this checkout, on
this machine, one beside the other; then explains, attacks and trains centrally. Prints what differs in
records and states. Bits differ between processors, so the repository holds nothing to compare with. Exit
code 0 if nothing differs, 1 if something does, 2 if a side did not run.

Both sides are told what to do in this checkout's words; `in_words_of` translates for commits that have
others. A difference that is meant stands in `MEANT`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parents[2]
Values = dict[str, Any]
Content = dict[str, Any]
"""Of a file: column, tensor or path of a JSON value -> something that compares by bits."""

SMALL: Values = {
    "dataset": "digits",
    "clients": 6,
    "training": {"rounds": 3, "local_epochs": 1},
    "split": {"kind": "nonoverlapping-balanced", "draws": 40, "server_images": 50},
}
SOON = {"cooldown": 1, "epsilon_1": 1.0, "epsilon_2": 0.0}
ALGORITHMS: dict[str, Values] = {
    **dict.fromkeys(["fedavg", "ocfl-kmeans", "ocfl-affinity", "ocfl-meanshift", "ocfl-hdbscan"], {}),
    **dict.fromkeys(["ocfl-affinity-as-published", "ocfl-hdbscan-as-published", "louvain", "leiden"], {}),
    **dict.fromkeys(["fedprox", "scaffold", "fednova", "lg-fedavg", "fine-tuned", "per-fedavg"], {}),
    **dict.fromkeys(["evident-groups", "ifca", "flis-dc", "flis-hc", "ladd", "solo", "oracle"], {}),
    **dict.fromkeys(["flis-dc-as-published", "flis-hc-as-published"], {}),
    **dict.fromkeys(["sattler", "sattler-as-published"], SOON),
    **dict.fromkeys(["briggs", "briggs-as-published"], {"round": 2}),
    "embeddings": {"encoder": "pixels"},
    "embeddings-as-published": {"encoder": "pixels", "threshold": 10.0},
}
"""Every registered algorithm, with settings by which it acts in round 2 or cheaply before it."""
SPLITS: dict[str, Values] = {
    **dict.fromkeys(["nonoverlapping-imbalanced", "overlapping-balanced", "overlapping-imbalanced"], {}),
    "majority": {"num_clusters": 2},
    "label-skew": {"tested_on": "official", "draws": None},
    "dirichlet": {"alpha": 0.5, "draws": None},
    **dict.fromkeys(["iid", "rotated", "flipped", "swapped"], {"draws": None}),
}
NOISE: list[Values] = [{"clip": 0.5}, {"noise": 1.0}]
FURTHER: dict[str, Values] = {
    "local noise with a budget": {"algorithm": "ocfl-kmeans", "uplink": NOISE, "privacy": {"epsilon": 15.0}},
    "central noise": {
        "algorithm": "ocfl-kmeans",
        "uplink": NOISE[:1],
        "privacy": {"central_noise": 1.0},
    },
    "central noise, fednova": {
        "algorithm": "fednova",
        "uplink": NOISE[:1],
        "privacy": {"central_noise": 1.0},
    },
    "noise on messages": {
        "algorithm": {"name": "embeddings", "encoder": "pixels", "clip": 1.0, "noise": 2.0}
    },
    "an encoder": {
        "algorithm": {"name": "embeddings", "encoder": {"name": "dense", "federated": 1, "epochs": 1}}
    },
    "participation, dropout and joins": {
        "algorithm": "ocfl-kmeans",
        "participation": 0.7,
        "dropout": 0.2,
        "joins": {4: 2},
    },
    "drift": {"algorithm": "ocfl-kmeans", "drift": {1: {"round": 2, "to": 2}}},
    "faults": {"algorithm": "ocfl-hdbscan", "faults": {"label_flip": [1], "sign_flip": [2], "scale": {3: 9}}},
    "top k and quantised": {"algorithm": "ocfl-kmeans", "uplink": [{"topk": 0.1}, {"quantise": 4}]},
    "bfloat16": {"algorithm": "fedavg", "training": {"precision": "bfloat16"}},
    "stacked": {"algorithm": "fedavg", "training": {"stacked": 3}},
    "adam": {"algorithm": "fedavg", "training": {"optimizer": "adam", "learning_rate": 0.001}},
    "momentum, decay and batch norm": {
        "algorithm": "ocfl-kmeans",
        "model": "resnet9",
        "clients": 3,
        "training": {"rounds": 1, "momentum": 0.9, "weight_decay": 0.001},
        "split": {"draws": 20},
    },
    "weights by images": {"algorithm": "ocfl-kmeans", "weights": "images"},
    "augmentation": {"algorithm": "fedavg", "training": {"augment": ["crop"]}},
    "server momentum": {"algorithm": {"name": "fedavg", "server_momentum": 0.9}},
    "a local rule under a clustering": {"algorithm": {"name": "ocfl-kmeans", "local": {"name": "scaffold"}}},
}
GRID: Values = {"algorithm": ["fedavg", "ocfl-kmeans", {"name": "sattler", **SOON}]}
"""Runs that share cached rounds, and are explained and attacked."""
COMMANDS = [
    ["run", "cached.yaml", "--in-process"],
    ["explain", "cached", "--in-process", "--on", "members", "--images", "2", "--steps", "4"],
    ["attack", "cached", "--kind", "membership"],
    ["attack", "cached", "--kind", "class"],
    ["attack", "cached", "--kind", "reconstruction", "--clients", "1", "--steps", "5"],
    ["centralised", "digits", "--epochs", "2"],
]

FILES = ("*.parquet", "*.safetensors", "attacks/*-????????????.json")
CLOCKS = ("timings", "seconds", "computed_by")
"""Beginnings of names of files and columns that differ from run to run."""
DIGEST = re.compile(r"[0-9a-f]{12}")
MEANT: dict[str, str] = {}
"""Name of a run that differs from that of earlier commits -> why."""


def runs() -> dict[str, Values]:
    """Return the configurations that are trained without a cache, by their names in the output."""
    found: dict[str, Values] = {}
    for name, settings in ALGORITHMS.items():
        split = {"reference_images": 20} if name.startswith("flis") else {}
        training = {"optimizer": "sgd"} if name == "fednova" else {}
        found[name] = {"algorithm": {"name": name, **settings}, "split": split, "training": training}
    for kind, options in SPLITS.items():
        found[f"split {kind}"] = {"algorithm": "ocfl-kmeans", "split": {"kind": kind, **options}}
    return {name: _merged(SMALL, values) for name, values in {**found, **FURTHER}.items()}


def _merged(values: Values, changes: Mapping[str, Any]) -> Values:
    inner = {
        key: {**values[key], **changes[key]} if isinstance(values.get(key), dict) else changes[key]
        for key in changes
    }
    return {**values, **inner}


def in_words_of(tree: Path, values: Values) -> Values:
    """Return a configuration in the words of a tree's code."""
    if "overlap: str" not in (tree / "engine/run_config.py").read_text():
        return values
    split = dict(values["split"])
    overlap, _, balance = split.pop("kind").rpartition("-")
    if balance not in ("balanced", "imbalanced"):
        overlap, balance = "-".join(filter(None, (overlap, balance))), "balanced"
    return {**_with_bnc(tree, values), "overlap": overlap, "balance": balance, "split": split}


def _with_bnc(tree: Path, values: Values) -> Values:
    if '"bnc", "BNC"' not in (tree / "algorithms/registry.py").read_text():
        return values
    text = json.dumps(values["algorithm"]).replace('"fedavg"', '"bnc"')
    return {**values, "algorithm": json.loads(text)}


def side(tree: Path, folder: Path, only: list[str]) -> None:
    """Train all runs with the code of a tree, which this process imports, below a folder."""
    import fedgrid
    from fedgrid.tracking import figures

    figures.write = _no_figures
    failed = False
    for name, values in runs().items():
        if not only or name in only:
            translated = _without_no_effect(in_words_of(tree, values))
            try:
                fedgrid.run(translated, storage=folder / name, data_dir=folder / "none")
            except fedgrid.FedgridError as error:
                print(f"{name}: {error}", flush=True)
                failed = True
    if not only or "cached" in only:
        _commands(tree, folder)
    sys.exit(failed)


def _no_figures(folder: Path) -> list[Path]:
    (folder / "figures").mkdir(exist_ok=True)
    return []


def _commands(tree: Path, folder: Path) -> None:
    from fedgrid.grids.cli import main

    (folder / "cached.yaml").write_text(json.dumps(in_words_of(tree, _merged(SMALL, GRID))))
    os.chdir(folder)
    for command in COMMANDS:
        print(*command, flush=True)
        sys.argv = ["fedgrid", *command, "--storage", "cached"]
        try:
            with redirect_stdout(StringIO()):
                main.run_command()
        except SystemExit as end:
            if end.code:
                raise


def _without_no_effect(values: Values) -> Values:
    """Leave out settings that are None: their default."""
    return {
        key: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
        for key, value in values.items()
    }


def contents(folder: Path) -> dict[str, Content]:
    """Return what stands in the files of a side: name of run and file, without ids -> content."""
    found = {}
    for path in sorted(path for pattern in FILES for path in folder.rglob(pattern)):
        parts = path.relative_to(folder).parts
        if "cache" in parts or "store" in parts or "mlartifacts" in parts or path.name.startswith(CLOCKS):
            continue
        run = next((above for above in path.parents if (above / "config.json").exists()), path.parent)
        key = f"{parts[0]}, {_algorithm(run)}, {path.relative_to(run)}"
        found[DIGEST.sub("ID", key)] = _content(path)
    return found


def _algorithm(run: Path) -> str:
    if not (run / "config.json").exists():
        return run.name
    about = json.loads((run / "config.json").read_text())
    name = about.get("algorithm", {}).get("name", "centralised")
    return "fedavg" if name == "bnc" else str(name)


def _content(path: Path) -> Content:
    import pyarrow.parquet as pq
    from safetensors.numpy import load_file

    if path.suffix == ".safetensors":
        return {name: (array.shape, array.tobytes()) for name, array in load_file(path).items()}
    if path.suffix == ".json":
        return dict(_leaves(json.loads(path.read_text()), ""))
    table = pq.read_table(path)
    return {name: [repr(value) for value in table[name].to_pylist()] for name in table.column_names}


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{key}.{step}" if key else str(step))
    elif not key.endswith(("seconds", "sha256", "run_id")):
        yield key, repr(value)


def differences(before: Mapping[str, Content], now: Mapping[str, Content]) -> Iterator[str]:
    """Yield a line for each file that only one side has, and each column or tensor that differs."""
    for file in sorted({*before, *now}):
        if file not in before or file not in now:
            yield f"{file}: only {'before' if file in before else 'now'}"
            continue
        for name in dict.fromkeys([*before[file], *now[file]]):
            one, other = before[file].get(name), now[file].get(name)
            if one != other and not name.startswith(CLOCKS):
                yield f"{file}: {name}{_where(one, other)}"


def _where(one: Any, other: Any) -> str:
    if not (isinstance(one, list) and isinstance(other, list)):
        return (
            "" if one is None or other is None or isinstance(one, tuple) else f": {one} before, {other} now"
        )
    if len(one) != len(other):
        return f": {len(one)} rows before, {len(other)} now"
    row = next(row for row, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    return f", row {row}: {one[row]} before, {other[row]} now"


def compare(commit: str, only: list[str]) -> int:
    """Run both sides, print what differs and return the exit code."""
    with TemporaryDirectory(prefix="same-bytes-") as scratch:
        old, folder = Path(scratch, "tree"), Path(scratch)
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", old, commit], check=True)
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
    found = list(differences(before, now))
    unexpected = [line for line in found if line.partition(",")[0] not in MEANT]
    for line in found:
        print(line if line in unexpected else f"{line} (meant: {MEANT[line.partition(',')[0]]})")
    print(
        f"{len(now)} files of {len({key.partition(', state')[0] for key in now})} tables and states: ", end=""
    )
    print(f"{len(unexpected)} unexpected differences" if unexpected else "all the same")
    return 1 if unexpected else 0


def _started(tree: Path, folder: Path, only: list[str]) -> "subprocess.Popen[bytes]":
    folder.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FEDGRID", "MLFLOW"))},
        **{"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "FEDGRID_CACHE": str(folder / "user")},
    }
    command = [
        sys.executable,
        __file__,
        "side",
        "--tree",
        str(tree),
        "--folder",
        str(folder),
        "--only",
        *only,
    ]
    with (folder / "log.txt").open("w") as log:
        return subprocess.Popen(
            [*command, "--only", *only], env=environment, stdout=log, stderr=log, cwd=folder
        )


def main() -> None:
    """Read the command line."""
    options = argparse.ArgumentParser(prog="python -m tests.e2e.same_bytes", description=__doc__)
    options.add_argument("commit", help="compare with this commit")
    options.add_argument("--only", nargs="*", default=[], metavar="NAME", help="only these runs, or `cached`")
    options.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.tree is not None:
        side(given.tree, given.folder, given.only)
    else:
        sys.exit(compare(given.commit, given.only))


if __name__ == "__main__":
    main()
