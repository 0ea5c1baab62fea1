"""Slips of a caller from Python: each gets one line with the argument, its value and what is expected."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
import pytest

import fedgrid
from fedgrid.arguments import ArgumentError, check_arguments, check_choice
from fedgrid.tracking import figures
from fedgrid.tracking.scoring.study import Study
from tests.helpers.command_line import new_storage

CONFIG = {"clients": 3, "algorithm": "fedavg", "training": {"rounds": 1, "local_epochs": 1}}


@check_arguments(paths="as in ['a.py']")
def public(
    what: Mapping[str, Any] | Path | str,
    *,
    paths: Iterable[Path | str] = (),
    count: int = 0,
    share: float = 0.0,
    is_on: bool = False,
    side: Literal["left", "right"] = "left",
    seen: Callable[[int], object] | None = None,
) -> str:
    """Return what it was given."""
    return f"{what}"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"what": None}, "what = None: expected a dict with keys that are str or Path or str"),
        ({"what": {5: 1}}, "what = {5: 1}: expected a dict"),
        ({"what": "x", "paths": "a.py"}, r"paths = 'a.py': .* list of Path or str; as in \['a.py'\]"),
        ({"what": "x", "count": 1.5}, "count = 1.5: expected int"),
        ({"what": "x", "share": "0.5"}, "share = '0.5': expected float"),
        ({"what": "x", "is_on": "no"}, "is_on = 'no': expected bool"),
        ({"what": "x", "side": "up"}, "side = 'up': expected 'left' or 'right'"),
        ({"what": "x", "seen": 3}, "seen = 3: expected Callable or None"),
        ({}, "missing a required argument: 'what'"),
        ({"what": "x", "is_onn": True}, "'is_onn'; did you mean 'is_on'"),
        ({"what": "x", "paths": ["s3://key:s3cr3t-W0rd@bucket/" + "x" * 100, 5]}, "paths = a list"),
    ],
)
def test_wrong_argument_is_named_with_what_is_expected(given, says):
    with pytest.raises(ArgumentError, match=says) as refused:
        public(**given)
    assert "\n" not in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_values_of_numpy_and_all_kinds_of_lists_are_taken():
    assert public({"a": 1}, count=np.int64(3), share=np.float32(0.5), is_on=np.bool_(True)) == "{'a': 1}"
    assert public(Path("x"), paths=("a", Path("b")), share=1, is_on=1, seen=print) == "x"
    assert public("x", paths=(name for name in "ab"), side="right") == "x"


def test_unknown_name_is_an_error_with_the_nearest_whatever_its_case():
    check_choice("kind", "ari", ["ari", "f1"])
    with pytest.raises(ArgumentError, match="unknown kind 'ARI'; did you mean 'ari'. known: ari, f1"):
        check_choice("kind", "ARI", ["ari", "f1"])


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with one run, in the grid `mine`."""
    root = new_storage(tmp_path_factory.mktemp("arguments") / "runs")
    fedgrid.run_grid(CONFIG, name="mine", storage=root, in_process=True)
    return root


def test_public_functions_are_checked_and_their_annotations_can_be_read():
    """Which a class that is imported for types only would prevent."""
    functions = [fedgrid.run, fedgrid.run_grid, fedgrid.load, fedgrid.pretrained, Study.where, Study.only]
    drawing = [
        getattr(figures, name) for name in figures.__all__ if name not in ("PaperFigure", "style_context")
    ]
    for function in (*functions, *drawing, fedgrid.Run.table):
        assert function.__wrapped__
        assert get_type_hints(function)


def test_storage_is_a_path_or_a_text(storage):
    assert fedgrid.load("mine", storage).runs == fedgrid.load("mine", str(storage)).runs


WHOLE = {
    **{"dataset": "digits", "clients": 3, "algorithm": {"name": "fedavg"}, "seed": 0, "model": "digitnet"},
    "training": {"rounds": 1, "local_epochs": 1, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.1},
}

CALLS: dict[str, Callable[[Study, Path], Any]] = {
    r"grid = None: expected str; its name": lambda study, root: fedgrid.load(None),
    r"grid = 'mine': expected str": lambda study, root: fedgrid.load(Path("mine"), root),
    r"storage = None: expected Storage": lambda study, root: fedgrid.load("mine", None),
    r"swap them": lambda study, root: fedgrid.load("runs", "mine"),
    r"run: storage = None": lambda study, root: fedgrid.run(CONFIG, storage=None),
    r"plugins = 'mine.py'.*list of Path": lambda study, root: fedgrid.run(CONFIG, plugins="mine.py"),
    r"config = 'x.yaml': .*; fedgrid.run_grid runs a preset, a file": lambda study, root: fedgrid.run(
        "x.yaml"
    ),
    r"run_grid: grid = \['a.yaml'\]": lambda study, root: fedgrid.run_grid(["a.yaml"]),
    r"'training.rounds' is no key of a run; write `training: {rounds: 3}`": lambda study, root: fedgrid.run(
        {**CONFIG, "training.rounds": 3}, storage=root
    ),
    r"per_round: study = 'mine': expected Study": lambda study, root: figures.per_round("mine", "ari"),
    r"records = a Run: expected Records": lambda study, root: figures.run_figure(study.runs[0]),
    r"figure = 'x.png': expected Figure": lambda study, root: figures.save("x.png", None),
    r"format of a figure 'bmp'": lambda study, root: figures.save(figures.segments(study), "x.bmp"),
    r"no figure 'per_rounds'; did you mean 'per_round'": lambda study, root: figures.per_rounds,
    r"no attribute 'Load'; did you mean 'load'": lambda study, root: fedgrid.Load,
    r"no score 'acc'; did you mean 'personalised_accuracy'": lambda study, root: study.runs[0].scores["acc"],
    r"there are clients, rounds, timings": lambda study, root: study.runs[0].table("cleints"),
    r"last = -1": lambda study, root: study.runs[0].mean("ari", last=-1),
    r"runs = 'mine': expected a list of Run": lambda study, root: study.only("mine"),
    r"--storage .*\.py is a file, and a storage is a folder": lambda study, root: fedgrid.load("g", __file__),
    r"--storage [^:]*: .*\.py is a file": lambda study, root: fedgrid.run_grid(
        CONFIG, name="g", storage=f"file://{__file__}"
    ),
    r"^unknown key 'datset'; did you mean 'dataset'": lambda study, root: fedgrid.RunConfig(
        **WHOLE, datset="digits"
    ),
    r"^weights = 'image': input should be 'none', 'images'": lambda study, root: fedgrid.RunConfig(
        **WHOLE, weights="image"
    ),
    r"RunConfig takes values by key; .* RunConfig\(\*\*values\)": lambda study, root: fedgrid.RunConfig(
        WHOLE
    ),
    r"unknown key 'lr'; .*server_learning_rate": lambda study, root: fedgrid.FedOptSettings(lr=1),
    r"clusterer: unknown clusterer 'kmean'": lambda study, root: fedgrid.OcflSettings(clusterer="kmean"),
    r"unknown choose_on 'tests'; did you mean 'test'": lambda study, root: fedgrid.Order(
        1, (0,), choose_on="tests"
    ),
    r"no score 'ari': the run is not finished": lambda study, root: fedgrid.Run(
        "id", "run", root, "digits", "iid", 3, "fedavg", None, 0, 1
    ).scores["ari"],
}
"""What the answer says -> a slip."""


@pytest.mark.parametrize("says", CALLS)
def test_slip_from_python_is_one_line_that_says_what_is_expected(says, storage, tmp_path, monkeypatch):
    study = fedgrid.load("mine", storage)
    monkeypatch.chdir(storage.parent)
    before = sorted(storage.iterdir())
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError), match=says) as refused:
        CALLS[says](study, storage)
    assert "\n" not in str(refused.value)
    assert sorted(storage.iterdir()) == before


def test_path_of_a_figure_may_be_a_text(storage, tmp_path):
    figure = figures.segments(fedgrid.load("mine", storage))
    figures.save(figure, str(tmp_path / "x.PNG"))
    figures.save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000
    assert (tmp_path / "x.PNG").read_bytes() == (tmp_path / "x.png").read_bytes()
    assert figures.write(str(fedgrid.load("mine", storage).runs[0].folder), str(tmp_path)).is_file()
