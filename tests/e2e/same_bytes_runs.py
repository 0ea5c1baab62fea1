"""The small runs of `tests.e2e.same_bytes`, and how one side of the comparison makes them.

    python -m tests.e2e.same_bytes_runs TREE FOLDER [NAME ...]

All is told in this checkout's words; `in_words_of` translates for the code of commits that have others.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[2]
Values = dict[str, Any]

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
    "briggs": {"round": 2},
    "briggs-as-published": {"round": 2, "threshold": 0.02},
    "embeddings": {"encoder": "pixels"},
    "embeddings-as-published": {"encoder": "pixels", "threshold": 10.0},
}
"""Every registered algorithm but ward-told, with settings by which it acts in round 2 or before."""
SPLITS: dict[str, Values] = {
    **dict.fromkeys(["nonoverlapping-imbalanced", "overlapping-balanced", "overlapping-imbalanced"], {}),
    "majority": {"num_clusters": 2},
    "label-skew": {"tested_on": "official", "draws": None},
    "dirichlet": {"alpha": 0.5, "draws": None},
    **dict.fromkeys(["iid", "rotated", "flipped", "swapped"], {"draws": None}),
}
NOISE: list[Values] = [{"clip": 0.5}, {"noise": 1.0}]
"""Its epsilon is 7.1 after round 2 and 9.0 after round 3."""
OWN_IMAGES = "digits.npz"
FURTHER: dict[str, Values] = {
    "local noise with a budget": {"algorithm": "ocfl-kmeans", "uplink": NOISE, "privacy": {"epsilon": 8.0}},
    "central noise": {
        "algorithm": "ocfl-kmeans",
        "uplink": NOISE[:1],
        "privacy": {"central_noise": 1.0},
    },
    "central noise, fednova": {
        "algorithm": "fednova",
        "uplink": NOISE[:1],
        "privacy": {"central_noise": 1.0},
        "training": {"optimizer": "sgd"},
        "split": {"kind": "dirichlet", "draws": None},
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
    "faults": {
        "algorithm": {"name": "briggs", "round": 2},
        "faults": {"label_flip": [1], "sign_flip": [2], "scale": {3: 9}},
    },
    "top k and quantised": {
        "algorithm": {"name": "briggs", "round": 2},
        "uplink": [{"topk": 0.1}, {"quantise": 4}],
    },
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
    "own images, split natural": {
        "dataset": f"npz:{OWN_IMAGES}",
        "model": "digitnet",
        "algorithm": "ocfl-kmeans",
        "training": {"learning_rate": 0.1},
        "split": {"kind": "natural", "draws": None},
    },
    "a local rule under a clustering": {"algorithm": {"name": "ocfl-kmeans", "local": {"name": "scaffold"}}},
}
CACHED = "cached"
GRID: Values = {"algorithm": ["fedavg", "ocfl-kmeans", {"name": "sattler", **SOON}]}
"""Runs that share cached rounds, and are explained and attacked."""
COMMANDS = [
    ["run", f"{CACHED}.yaml", "--in-process"],
    ["analyse", CACHED, "explain", "--in-process", "on=members", "images=2", "steps=4"],
    ["analyse", CACHED, "attack", "--in-process", "kind=membership"],
    ["analyse", CACHED, "attack", "--in-process", "kind=class"],
    ["analyse", CACHED, "attack", "--in-process", "kind=reconstruction", "clients=1", "steps=5"],
    ["run", "centralised", "--in-process", "training.rounds=2"],
]


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


def names() -> list[str]:
    """Return what `--only` can name."""
    return [*runs(), CACHED]


def _merged(values: Values, changes: Mapping[str, Any]) -> Values:
    inner = {
        key: {**values[key], **changes[key]} if isinstance(values.get(key), dict) else changes[key]
        for key in changes
    }
    return {**values, **inner}


OLD_NAMES = {"fedavg": "bnc"}
"""Algorithms that earlier commits call otherwise: name -> theirs."""


def in_words_of(tree: Path, values: Values) -> Values:
    """Return a configuration in the words of a tree's code."""
    config = tree / "engine/run_config.py"
    if not config.exists() or "overlap: str" not in config.read_text():
        return values
    split = dict(values["split"])
    overlap, _, balance = split.pop("kind").rpartition("-")
    if balance not in ("balanced", "imbalanced"):
        overlap, balance = "-".join(filter(None, (overlap, balance))), "balanced"
    return {**_with_old_names(tree, values), "overlap": overlap, "balance": balance, "split": split}


def _with_old_names(tree: Path, values: Values) -> Values:
    if '"bnc", "BNC"' not in (tree / "algorithms/registry.py").read_text():
        return values
    text = json.dumps(values["algorithm"])
    for name, old in OLD_NAMES.items():
        text = text.replace(f'"{name}"', f'"{old}"')
    return {**values, "algorithm": json.loads(text)}


def train(tree: Path, folder: Path, only: list[str]) -> None:
    """Train runs with the code of a tree, which this process imports, below a folder: all without `only`."""
    import fedgrid
    from fedgrid.tracking import figures

    _check_code(tree)
    figures.write = _no_figures  # Of 66eb98e, which draws those of each run.
    os.chdir(folder)
    _write_own_images()
    failed = False
    for name, values in runs().items():
        if not only or name in only:
            translated = _without_no_effect(in_words_of(tree, values))
            try:
                fedgrid.run(translated, storage=folder / name, data_dir=folder / "none")
            except fedgrid.FedgridError as error:
                print(f"{name}: {error}", flush=True)
                failed = True
    if not only or CACHED in only:
        _commands(tree)
    sys.exit(failed)


def _check_code(tree: Path) -> None:
    """Check that the code is the tree's, not that of an installation, and that no algorithm is left out."""
    from fedgrid.algorithms import registry

    if not Path(registry.__file__).resolve().is_relative_to(tree.resolve()):
        sys.exit(f"{registry.__file__} was imported, which is not the code of {tree}")
    left_out = set(registry.ALGORITHMS) - set(ALGORITHMS) - set(OLD_NAMES.values())
    if tree != HERE and left_out:  # An algorithm that is new here has nothing to be compared with.
        sys.exit(f"add to ALGORITHMS of {__file__}: {', '.join(sorted(left_out))}")


def _write_own_images() -> None:
    """Write scikit-learn's digits as images of the user's own, each of one of six groups."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = (digits.images * 15).astype(np.uint8), digits.target
    groups = labels % 3 * 2 + np.arange(len(labels)) % 2
    is_pool = np.arange(len(labels)) % 5 > 0
    arrays = {"images": images, "labels": labels, "group": groups}
    named = {
        f"{part}_{name}": array[chosen]
        for part, chosen in (("train", is_pool), ("test", ~is_pool))
        for name, array in arrays.items()
    }
    np.savez(OWN_IMAGES, **named)


def _no_figures(folder: Path) -> list[Path]:
    (folder / "figures").mkdir(exist_ok=True)
    return []


def _commands_of(tree: Path) -> list[list[str]]:
    """Return the commands in the words of a tree's code."""
    if '"--set"' not in (tree / "fedgrid/grids/cli/commands/options.py").read_text():
        return COMMANDS
    return [_with_options(command) for command in COMMANDS]


def _with_options(command: list[str]) -> list[str]:
    """Return a command as it was before overrides were arguments and analyses one command."""
    name, what, *rest = command
    if name == "run":
        return [
            name,
            what,
            *(word for each in rest for word in (("--set", each) if "=" in each else (each,))),
        ]
    analysis, *rest = rest
    options = (("--" + each).split("=") if "=" in each else [each] for each in rest)
    return [analysis, what, *(word for words in options for word in words)]


def _commands(tree: Path) -> None:
    # Else each launch starts a process that imports it, and waits for that.
    import mlflow.tracking  # noqa: F401

    from fedgrid.grids.cli import main

    Path(f"{CACHED}.yaml").write_text(json.dumps(in_words_of(tree, _merged(SMALL, GRID))))
    for command in _commands_of(tree):
        print(*command, flush=True)
        sys.argv = ["fedgrid", *command, "--storage", CACHED]
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


if __name__ == "__main__":
    train(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
