"""A grid on two nodes survives the loss of one, with the same bytes as without the loss."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.lost_node import arguments
from tests.helpers.command_line import fedgrid, strict_json

ROOT = Path(__file__).parents[2]
NUM_RUNS = 4


def records_and_states(storage: Path) -> dict[str, bytes]:
    """Return path -> bytes of the records and states of a grid's runs."""
    patterns = ("rounds.parquet", "clients.parquet", "state-*")
    paths = [path for pattern in patterns for path in storage.glob(f"*/{pattern}")]
    return {str(path.relative_to(storage)): path.read_bytes() for path in paths}


@pytest.mark.slow
@pytest.mark.ray
def test_losing_a_node_changes_no_byte(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.lost_node", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    disturbed = strict_json(ended.stdout)
    assert (disturbed["code"], disturbed["nodes_left"]) == (0, 1)
    assert disturbed["retries"] >= 1
    undisturbed = tmp_path / "undisturbed"
    assert fedgrid(*arguments(undisturbed), "--in-process").code == 0
    found = records_and_states(tmp_path / "disturbed")
    assert len([path for path in found if path.endswith("rounds.parquet")]) == NUM_RUNS
    assert found == records_and_states(undisturbed)
