"""Outcomes of rows whose runs are finished or have diverged, from the storage that has them."""

from math import isnan

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.arena.stored_results import read_outcomes
from fedgrid.grids.presets.load import load_grid
from fedgrid.tracking.verdicts.outcomes import ArenaRow
from fedgrid.tracking.verdicts.tables import describe_diverged
from tests.helpers.command_line import fedgrid, new_storage


def test_run_that_diverged_counts_as_the_worst_result(tmp_path):
    """Left out, it would take the family from all methods: they are compared where all have a result."""
    storage, file = new_storage(tmp_path), tmp_path / "two.yaml"
    file.write_text(
        "{dataset: digits, clients: 5, held_out: 0.2, split: iid, algorithm: fedavg, seeds: [0],"
        " training: {rounds: 1}, axes: {training.learning_rate: [0.1, 1.0e+30]}}"
    )
    result = fedgrid("run", file, "--in-process", "--storage", storage)
    assert result.code == 1
    runs = load_grid(str(file), {}, [], tmp_path).runs
    row = ArenaRow("fedavg", "BNC", "tuned", "served", "iid", False, "")
    finished, diverged = read_outcomes("two", [(row, run) for run in runs], Storage.from_text(storage))
    assert finished.personalised_accuracy > 0
    assert (diverged.personalised_accuracy, diverged.held_out_accuracy) == (0, 0)
    assert isnan(diverged.ari)
    assert (finished.is_diverged, diverged.is_diverged) == (False, True)
    assert "fedavg 1" in describe_diverged([finished, diverged])
    assert describe_diverged([finished]) == ""
