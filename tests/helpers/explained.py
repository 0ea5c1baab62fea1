"""A small grid of finished runs on digits, to explain: three clients, three rounds, two algorithms."""

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.small_grid import NOWHERE, ROUNDS, config

GRID = "small"
CLUSTERING = {"rounds": ROUNDS}
"""The training with which the second run finds clusters: of the data set's epochs."""
RUNS = tuple(config(1, algorithm=name, training=CLUSTERING) for name in ("fedavg", "ocfl-kmeans"))
UNFINISHED = config(2, training=CLUSTERING)


def run_grid(root):
    """Run both runs, and name a third one that is not started; make their storage."""
    storage = Storage(root)
    for run in RUNS:
        for _ in run_to_end(Session(InProcessPool(), NOWHERE), run, storage, lambda: False):
            pass
    GridFolder(storage, GRID).keep((*RUNS, UNFINISHED), "")
    return storage


def read_explanations(root):
    """Read the bytes of all files of explanations."""
    paths = sorted(root.glob("*/explanations/*"))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if "mlflow" not in path.name}
