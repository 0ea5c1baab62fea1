"""Completion by the shell, and `fedgrid list algorithms NAME`."""

import json

import pytest

from fedgrid.algorithms.registry import ALGORITHMS
from tests.helpers.command_line import fedgrid


def completed(*words, storage):
    """Return what bash offers for the last word."""
    shell = {"_FEDGRID_COMPLETE": "complete_bash", "COMP_CWORD": str(len(words))}
    result = fedgrid(COMP_WORDS=" ".join(("fedgrid", *words)), FEDGRID_STORAGE=str(storage), **shell)
    return result.out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("run", "paper-"), ["paper-as-published", "paper-digits", "paper-fast"]),
        (("run", "--algorithm", "ocfl-m"), ["ocfl-meanshift"]),
        (("search", "briggs"), ["briggs", "briggs-as-published"]),
        (("list", "algorithms", "sc"), ["scaffold"]),
        (("status", "m"), ["mine"]),
        (("show", ""), ["mine", "digits-3-fedavg-s1-0123"]),
        (("show", "d"), ["digits-3-fedavg-s1-0123"]),
    ],
)
def test_names_are_completed(tmp_path, words, offered):
    for file in ("grids/mine/runs.jsonl", "digits-3-fedavg-s1-0123/config.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    assert completed(*words, storage=tmp_path) == offered


def test_yaml_files_and_folders_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xyz").mkdir()
    for name in ("xy.yaml", "xy.txt"):
        (tmp_path / name).touch()
    assert completed("run", "xy", storage=tmp_path) == ["xy.yaml", "xyz/"]


def test_an_algorithm_shows_its_settings_with_defaults_and_meaning():
    out = " ".join(fedgrid("list", "algorithms", "sattler", COLUMNS="200").out.split())
    assert "cooldown 3 integer >= 0 First rounds without a split." in out
    assert "epsilon_1_share 0.5 number >= 0 and <= 1 epsilon_1 as a share of the median norm" in out
    assert "clusterer.min_cluster_share 0.2" in " ".join(
        fedgrid("list", "algorithms", "ocfl-hdbscan", COLUMNS="200").out.split()
    )
    one = json.loads(fedgrid("list", "algorithms", "sattler", "--json").out)
    assert one["settings"]["cooldown"] == ALGORITHMS["sattler"].settings.cooldown
