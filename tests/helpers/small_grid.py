"""Two small runs, and listeners that remember what they were told."""

from pathlib import Path

from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.run_config import complete
from fedgrid.engine.session import Session
from fedgrid.grids.execution.run_events import take_forward

ROUNDS = 3
NOWHERE = Path("unused")


def config(seed, **values):
    """Return three clients on digits."""
    given = {"clients": 3, "training": {"rounds": ROUNDS}, "algorithm": "bnc", "seed": seed, **values}
    return complete(given, NOWHERE)


def take(storage, seed):
    """Run one of them to its end; return its configuration."""
    run = config(seed)
    for _ in take_forward(Session(InProcessPool(), NOWHERE), run, storage, lambda: False):
        pass
    return run


class Log:
    """An MLflow that remembers."""

    def __init__(self):
        self.told = []

    def start(self, config):
        self.told.append(("start", config.seed))

    def round(self, config, number, scores):
        self.told.append(("round", config.seed, number))

    def finish(self, config, status):
        self.told.append(("finish", config.seed, status))


class News:
    """A screen that remembers."""

    def __init__(self):
        self.told = []

    def start(self, config, rounds_done):
        self.told.append(("start", config.seed, rounds_done))

    def round(self, config, number, scores):
        self.told.append(("round", config.seed, number))

    def retry(self, config, cause, attempt):
        self.told.append(("retry", config.seed, cause, attempt))

    def finish(self, outcome):
        self.told.append(("finish", outcome.config.seed, outcome.error))

    def stop(self, config):
        self.told.append(("stop", config.seed))

    def stopping(self):
        self.told.append(("stopping",))

    def tally(self, tally):
        pass
