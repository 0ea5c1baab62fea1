"""A number of a round that is declared once is recorded, read, scored, shown by MLflow and documented."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from docs.reference import scores as scores_page
from fedgrid.algorithms.averaging.fedopt import FedOpt
from fedgrid.algorithms.contract.entry import OwnNumber
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.round import next_round
from fedgrid.engine.federation.round.record import build_round_row
from fedgrid.grids.cli.actions.listings import print_algorithms
from fedgrid.grids.trackers.mlflow.descriptions import build_metric_table
from fedgrid.grids.trackers.names import metric_meanings, select_metrics
from fedgrid.record_columns import EVERY_COLUMN, RecordColumn, build_schemas
from fedgrid.tracking import records
from fedgrid.tracking.scoring import scores
from tests.helpers.small_runs import ROUNDS, config, play

GINI = RecordColumn("gini", pa.float64(), "Inequality of the updates' norms.", section="other")


def add(monkeypatch):
    monkeypatch.setitem(EVERY_COLUMN, "rounds", (*EVERY_COLUMN["rounds"], GINI))
    monkeypatch.setattr(
        next_round, "build_round_row", lambda *given: {**build_round_row(*given), "gini": 0.25}
    )


def let_algorithm_return(monkeypatch, **numbers):
    step = FedOpt.step

    def step_and_more(self, *given):
        state, diagnostics = step(self, *given)
        return state, replace(diagnostics, metrics=numbers)

    monkeypatch.setattr(FedOpt, "step", step_and_more)


def shown(folder: Path) -> list[Mapping[str, Any]]:
    """Return what MLflow gets of each round."""
    return [select_metrics(found) for _, found in scores.score_rounds(folder)]


def test_added_metric_is_in_parquet_in_tracking_and_in_mlflow(tmp_path, monkeypatch):
    add(monkeypatch)
    folder = play(config(), tmp_path, cache=None)
    table = pq.read_table(folder / "rounds.parquet")
    assert (table.column_names[-1], table.schema.field("gini").type) == ("gini", pa.float64())
    assert table["gini"].to_pylist() == [0.25] * ROUNDS
    found = records.read_records(folder)
    assert found.rounds["gini"].tolist() == [0.25] * ROUNDS
    assert scores.compute_curves(found)["gini"].tolist() == [0.25] * ROUNDS
    assert [numbers["other/gini"] for numbers in shown(folder)] == [0.25] * ROUNDS
    assert metric_meanings()["other/gini"] == GINI.meaning
    assert "`other/gini` | Inequality of the updates' norms." in build_metric_table(metric_meanings())
    assert "| `gini` | `other/gini` | Inequality of the updates' norms. |" in documented()


def declare(monkeypatch, *numbers):
    entry = replace(ALGORITHMS["fedavg"], numbers=numbers)
    monkeypatch.setitem(ALGORITHMS, "fedavg", entry)


def test_number_that_an_entry_declares_is_in_parquet_scores_mlflow_and_the_list(tmp_path, monkeypatch):
    """The columns are in the order of their names, after the others; an infinite value is null."""
    spread = OwnNumber("spread", "Of the models.", "clustering")
    declare(monkeypatch, spread, OwnNumber("gini", GINI.meaning))
    let_algorithm_return(monkeypatch, gini=0.75, spread=math.inf)
    folder = play(config(), tmp_path, cache=None)
    table = pq.read_table(folder / "rounds.parquet")
    assert table.column_names[-3:] == ["silhouette", "gini", "spread"]
    assert table["gini"].to_pylist() == [0.75] * ROUNDS
    assert table["spread"].to_pylist() == [None] * ROUNDS
    assert scores.find_own_numbers(scores.compute_curves(records.read_records(folder))) == ("gini", "spread")
    assert [numbers["other/gini"] for numbers in shown(folder)] == [0.75] * ROUNDS
    assert (
        metric_meanings().items()
        >= {"other/gini": GINI.meaning, "clustering/spread": "Of the models."}.items()
    )
    console = Console(record=True, width=100)
    print_algorithms("fedavg", False, console)
    assert "gini, of each round: Inequality of the updates' norms." in console.export_text()


def test_records_of_other_algorithms_have_no_column_of_it(tmp_path, monkeypatch):
    declare(monkeypatch, OwnNumber("gini", GINI.meaning))
    let_algorithm_return(monkeypatch)
    run, other = config(), config("ocfl-kmeans")
    assert "gini" in records.read_table(play(run, tmp_path, cache=None, until=1), "rounds").column_names
    assert records.read_table(play(other, tmp_path, cache=None, until=1), "rounds").schema.equals(
        build_schemas()["rounds"]
    )


def test_number_that_the_entry_does_not_declare_is_refused_by_name(tmp_path, monkeypatch):
    declare(monkeypatch, OwnNumber("gini", GINI.meaning))
    let_algorithm_return(monkeypatch, ginny=0.75)
    with pytest.raises(ValueError, match="'ginny'.*AlgorithmEntry.*declared: gini"):
        play(config(), tmp_path, cache=None)


def test_older_records_read_as_null_in_an_added_metric_and_the_run_resumes(tmp_path, monkeypatch):
    folder = play(config(), tmp_path, cache=None, until=2)
    add(monkeypatch)
    found = records.read_records(folder)
    assert np.isnan(found.rounds["gini"]).all()
    assert math.isnan(scores.compute_curves(found)["gini"][0])
    assert [numbers["other/gini"] for numbers in shown(folder)] == [None, None]
    play(config(), tmp_path, cache=None)
    assert pq.read_table(folder / "rounds.parquet")["gini"].to_pylist() == [None, None, 0.25]


def test_schema_of_rounds_is_pinned():
    """Records on disk have these columns in this order: a change costs old runs their bytes."""
    assert [(field.name, str(field.type)) for field in build_schemas()["rounds"]] == [
        ("round", "int32"),
        ("temperature", "double"),
        ("clusters", "int32"),
        ("clustered", "bool"),
        ("bytes_down", "int64"),
        ("bytes_up", "int64"),
        ("excluded", "int32"),
        ("warnings", "int32"),
        ("mean_norm", "double"),
        ("max_norm", "double"),
        ("silhouette", "double"),
    ]
    assert build_schemas()["rounds"].metadata is None


def documented() -> str:
    """Return the generated page of the recorded numbers, and of the scores made from the records."""
    return scores_page.pages()["reference/scores.md"]
