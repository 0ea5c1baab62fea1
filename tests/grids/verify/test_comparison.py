"""Rivals beside their references: the numbers of the engine's rounds are those of plain torch."""

import json

import pytest

from fedgrid.algorithms import RIVALS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.verify.comparison import list_references, load_reference, verify_algorithm
from tests.helpers.command_line import fedgrid


@pytest.mark.parametrize("name", list_references())
def test_rival_computes_what_its_reference_does(name):
    verification = verify_algorithm(name)
    assert verification.is_equal, verification


def test_every_rival_has_a_reference():
    names = [entry.name for rival in RIVALS for entry in rival.ALGORITHMS]
    assert [name for name in names if not name.endswith("-as-published")] == list_references()


def test_difference_is_found(monkeypatch):
    reference = load_reference("ditto")
    right = reference.run
    monkeypatch.setattr(reference, "run", lambda problem: ([], [each + 1e-4 for each in right(problem)[1]]))
    assert verify_algorithm("ditto").served == pytest.approx(1e-4, rel=0.01)
    result = fedgrid("list", "algorithms", "ditto", "--verify", "--json")
    assert (result.code, json.loads(result.out)[0]["models"]) == (1, None)


def test_published_quirks_are_printed():
    result = fedgrid("list", "algorithms", "pfedme", "--verify")
    assert result.code == 0
    assert "tests w_i, not theta_i" in result.out


def test_algorithm_without_a_reference_is_refused():
    with pytest.raises(ConfigError, match="'fedavg' has no reference; there is one of fedem"):
        verify_algorithm("fedavg")


def test_only_algorithms_are_verified():
    assert "--verify is for algorithms" in fedgrid("list", "models", "--verify").err
