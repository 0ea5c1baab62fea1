"""A grid of four runs: two variants of Briggs, one fedavg, and one that has not started."""

import pytest

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.small_grid import NOWHERE, config

EARLY = config(seed=1, algorithm={"name": "briggs", "round": 2, "threshold": 0.1})
LATE = config(seed=1, algorithm={"name": "briggs", "round": 3, "threshold": 0.1})
PLAIN = config(seed=1)
WAITING = config(seed=2)
RUNS = (EARLY, LATE, PLAIN, WAITING)


@pytest.fixture(scope="session")
def browsed(tmp_path_factory):
    """A storage with the grid `mine`; tests must not change it."""
    storage = Storage.from_text(tmp_path_factory.mktemp("browsed"))
    session = Session(InProcessPool(), NOWHERE)
    for run in (EARLY, LATE, PLAIN):
        for _ in run_to_end(session, run, storage, lambda: False):
            pass
    GridFolder(storage, "mine").keep(RUNS, "clients: 3\n", "options")
    return storage
