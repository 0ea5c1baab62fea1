"""What it costs to find clusters."""

import numpy as np
import pytest

from fedgrid.tracking.tables.cost import before_training, has_messages, until_final
from tests.helpers.studies import ONE, TRUTH_K, WHOLE, result_of, run_of, study_of

SAID = {
    "message_bytes": (150, 0),
    "encoder_bytes": (2_000_000, 0),
    "message_seconds": (0.1, np.nan),
    "epoch_seconds": (np.nan, 0.4),
    "bytes": (3e6, 4e6),
    "ari": (1.0, 1.0),
}
SILENT = {"bytes": (1e6, 2e6), "ari": (0.0, 1.0)}
LATER = [(0,) * 6, TRUTH_K]


def row(table, name):
    [found] = [row for row in table.rows if row.name == name]
    return [cell.text for cell in found.cells]


def test_messages_and_updates_are_counted_alike():
    """150 bytes of 15 clients are 80 bits each; OCFL is final in its second round, after two megabytes."""
    said = result_of(run_of("Embeddings"), WHOLE, curves=SAID)
    silent = result_of(run_of("OCFL-KM"), LATER, curves=SILENT)
    never = result_of(run_of("BNC"), ONE, curves=SILENT)
    table = before_training(study_of([said, silent, never]))
    assert row(table, "Embeddings") == ["80", "2.000", "4.0", "2.000", "1.000"]
    assert row(table, "OCFL-KM") == ["0", "0.000", "–", "2.000", "1.000"]
    assert row(table, "BNC")[3] == "–"


def test_clusters_that_change_are_final_later():
    assert until_final(result_of(run_of("Embeddings"), LATER, curves=SAID)) == 4e6
    assert until_final(result_of(run_of("IFCA"), WHOLE, curves=SILENT)) == 1e6


@pytest.mark.parametrize(("curves", "expected"), [(SAID, True), (SILENT, False)])
def test_only_grids_with_messages_have_the_table(curves, expected):
    assert has_messages(study_of([result_of(run_of(), WHOLE, curves=curves)])) is expected
