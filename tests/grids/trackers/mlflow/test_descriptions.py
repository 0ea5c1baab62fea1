"""Descriptions in MLflow name what somebody else called things, without HTML."""

from dataclasses import replace

from fedgrid.algorithms import registry
from fedgrid.grids.trackers.mlflow.descriptions import describe_run
from tests.helpers.small_grid import config


def test_title_is_no_html_in_a_description(monkeypatch):
    run = config(seed=1)
    name = run.algorithm.name
    title = "X <img src=x onerror=alert(1)> ![a](http://b)"
    monkeypatch.setitem(registry.ALGORITHMS, name, replace(registry.ALGORITHMS[name], title=title))
    note = describe_run(run)
    assert "&lt;img src=x" in note
    assert "<" not in note
    assert "](" not in note
