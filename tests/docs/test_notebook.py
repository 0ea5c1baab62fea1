"""docs/notebook.ipynb runs, and its cells show what a reader expects."""

from pathlib import Path

import pytest

import fedgrid
from tests.helpers.notebook import run_cells
from tests.helpers.studies import make_finished, make_study

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
PNG = b"\x89PNG"


def test_notebook_runs_and_its_values_show_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = {"ari": (0.0, 1.0), "personalised_accuracy": (0.5, 0.75), "temperature": (0.5, 0.25)}
    of = make_study([make_finished(curves=curves)])
    monkeypatch.setattr(fedgrid, "load", lambda grid: of)
    shown = run_cells(NOTEBOOK)
    assert shown[0] is of
    assert shown[1].to_dict() == {"ari": {"fedavg": 1.0}, "personalised_accuracy": {"fedavg": 0.75}}
    assert shown[2]["ari"].tolist() == [0.0, 1.0]
    assert "<table>" in shown[3]._repr_html_()
    assert [figure._repr_png_()[:4] for figure in shown[4:]] == [PNG, PNG]
