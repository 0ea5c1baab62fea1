"""Every column of the Parquet files is declared with its meaning, and what is declared is written."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.archive import explanation_records as archived
from fedgrid.grids.explain.compute import records as explanations
from fedgrid.record_columns import EVERY_COLUMN
from tests.helpers.small_runs import NOWHERE, build_early_run, config, digits_of_two_writers, play

FEW = {"rounds": 1}
RUNS = (
    config(
        training=FEW,
        evaluation={"global_model": True, "probabilities": True},
        uplink=[{"clip": 1.0}, {"noise": 1.0}],
        faults={"sign_flip": [0]},
    ),
    build_early_run("ifca", training=FEW),
    build_early_run("embeddings", training=FEW),
    build_early_run("flis-dc", training=FEW),
    complete_config({"clients": 1, "split": "centralised", "algorithm": "fedavg", "training": FEW}, NOWHERE),
)
"""Together they have every column that some run has, but for natural groups and numbers to predict."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, pa.DataType]]:
    """Return file -> name and type of each column that one of the runs has written."""
    root = tmp_path_factory.mktemp("columns")
    found: dict[str, dict[str, pa.DataType]] = {}
    two = {"dataset": digits_of_two_writers(root), "clients": 2, "split": "natural", "model": "digitnet"}
    natural = complete_config({**two, "algorithm": "fedavg", "training": FEW}, NOWHERE)
    (root / "t.csv").write_text("\n".join(["x,y", *(f"{row},{row % 7}" for row in range(30))]))
    predicting = {"dataset": f"csv:{root}/t.csv#target=y", "clients": 2, "evaluation": {"global_model": True}}
    predicted = complete_config({**predicting, "algorithm": "fedavg", "training": FEW}, NOWHERE)
    for run in (*RUNS, natural, predicted):
        for path in sorted(Path(play(run, root, cache=None)).glob("*.parquet")):
            found.setdefault(path.stem, {}).update((each.name, each.type) for each in pq.read_schema(path))
    return found


def test_columns_that_runs_write_are_those_that_are_declared(written):
    assert written.keys() == EVERY_COLUMN.keys()
    for file, columns in EVERY_COLUMN.items():
        assert written[file] == {column.name: column.type for column in columns}


@pytest.mark.parametrize(
    "columns",
    [*EVERY_COLUMN.values(), explanations.COLUMNS, archived.COLUMNS],
    ids=[*EVERY_COLUMN, "explanations", "archive"],
)
def test_every_column_has_one_declaration_and_a_sentence(columns):
    assert len({column.name for column in columns}) == len(columns)
    assert [column.name for column in columns if not column.meaning.endswith(".")] == []
