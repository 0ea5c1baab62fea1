"""Two small runs, and a stand-in for the screen that records every call."""

from pathlib import Path

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.session import Session
from fedgrid.grids.execution.run_events import run_to_end

ROUNDS = 3
NOWHERE = Path("unused")


def config(seed, **values):
    """Build a run of three clients on digits, of one local epoch."""
    training = {"rounds": ROUNDS, "local_epochs": 1}
    given = {"clients": 3, "training": training, "algorithm": "fedavg", "seed": seed, **values}
    return complete_config(given, NOWHERE)


def run_seed(storage, seed):
    """Run one of them to its end, and build its configuration."""
    run = config(seed)
    for _ in run_to_end(Session(InProcessPool(), NOWHERE), run, storage, lambda: False):
        pass
    return run


class View:
    """A view of a launch that records its calls."""

    shows_rounds = True

    def __init__(self):
        self.calls = []

    def show_encoder(self, config, encoder):
        self.calls.append(("prepare", config.seed, encoder))

    def show_start(self, config, rounds_done):
        self.calls.append(("start", config.seed, rounds_done))

    def show_round(self, config, number, scores):
        self.calls.append(("round", config.seed, number))

    def show_retry(self, config, cause, attempt):
        self.calls.append(("retry", config.seed, cause, attempt))

    def show_result(self, config, run):
        self.calls.append(("finish", config.seed, run.cause or None))

    def show_stop(self, config):
        self.calls.append(("stop", config.seed))

    def announce_stop(self):
        self.calls.append(("stopping",))

    def show_tally(self, tally):
        pass
