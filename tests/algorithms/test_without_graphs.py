"""igraph and leidenalg are GPL: only Louvain and Leiden need them. All names: tests/test_public_api.py."""

import sys

import pytest

from tests.algorithms.test_contract import NAMES, acting
from tests.helpers.small_cases import Federation

GRAPHS = ("igraph", "leidenalg")
NEEDING = ("louvain", "leiden")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEEDING])
def test_algorithm_does_without_them(name, monkeypatch):
    for package in GRAPHS:
        monkeypatch.setitem(sys.modules, package, None)
    assert len(Federation().play(acting(name))) == 6


@pytest.mark.parametrize("name", NEEDING)
def test_communities_need_them(name, monkeypatch):
    for package in GRAPHS:
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match="igraph"):
        Federation().play(acting(name))
