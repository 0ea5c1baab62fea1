"""Tables of runs that test local models on the server's set in the last round only, as in `paper-fast`."""

import numpy as np
import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.study import load_run
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.personalisation import (
    LAST,
    MEAN,
    PUBLISHED,
    personalisation,
    published_personalisation,
)
from fedgrid.tracking.tables.table import NONE
from tests.helpers.finished_runs import mark_finished
from tests.helpers.small_runs import early, play


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """The same two runs, tested in every round and in the last one only."""
    storage = tmp_path_factory.mktemp("runs")

    def study(local_server):
        runs = [early(name, evaluation={"local_server": local_server}) for name in ("fedavg", "briggs")]
        for run in runs:
            play(run, storage)
            mark_finished(storage, run)
        return Study("mine", tuple(load_run(run, Storage.of(storage)) for run in runs))

    return study(True), study("last")


def test_last_tests_give_the_same_table_but_for_means_of_local_models(studies):
    whole, fast = map(published_personalisation, studies)
    assert [row.name for row in whole.rows] == [row.name for row in fast.rows] == ["fedavg", "briggs"]
    columns = [(column.group, column.name) for column in whole.columns]
    assert columns == [(column.group, column.name) for column in fast.columns]
    assert columns == [(span, heading) for span in (MEAN, LAST) for heading in PUBLISHED]
    missing = {(MEAN, "GF1"), (MEAN, "GA"), (MEAN, "gap")}
    for row, other in zip(whole.rows, fast.rows, strict=True):
        for column, cell, alike in zip(columns, row.cells, other.cells, strict=True):
            assert np.isfinite(cell.value)
            assert alike.text == (NONE if column in missing else cell.text)
            assert column in missing or alike.value == cell.value
    assert "local" not in whole.caption.partition("bold.")[2]
    assert "No means of GF1, GA and gap of 2 of 2 finished runs" in fast.caption
    assert "evaluation.local_server: true" in fast.caption


def test_last_tests_change_no_other_number(studies):
    tables = [[row.cells for row in personalisation(study).rows] for study in studies]
    assert tables[0] == tables[1]
    scores = [[dict(run.scores) for run in study.finished] for study in studies]
    for whole, fast in zip(*scores, strict=True):
        differing = {name for name in whole if whole[name] != fast[name]}
        assert differing == {"published_gf1", "published_ga", "published_learning_gap"}
        assert {fast[name] for name in differing} == {None}
