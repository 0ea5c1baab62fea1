"""What Tune is told of errors of the driver itself."""

from types import SimpleNamespace

import pytest

from fedgrid.engine.federation.errors import DeniedError
from fedgrid.grids.execution.run_events import RunFailed
from fedgrid.grids.execution.server_deadlines import ServerDeadlines


class Denied:
    """A watch whose storage has become read-only."""

    def __init__(self) -> None:
        self.ticks = 0

    def record_failure(self, config: object, cause: str, attempts: int) -> None:
        raise DeniedError(f"cannot be written, attempt {attempts}")

    handle_event = record_failure

    def check_launch(self) -> None:
        self.ticks += 1


@pytest.mark.parametrize("way", ["result", "error"])
def test_error_while_a_failure_is_noted_ends_the_step_as_itself(way):
    """Raised at once, Tune would end with the text of a traceback in its place."""
    from fedgrid.grids.execution.tune import _TrialCallback

    trial = SimpleNamespace(trial_id="a", config={"index": 0}, error_file=None)
    watch = Denied()
    context = SimpleNamespace(runs=["run"], options=SimpleNamespace(retries=0))
    listener = _TrialCallback(context, watch, ServerDeadlines())
    listener.on_trial_start(1, [trial], trial)
    for _ in range(2):
        if way == "result":
            listener.on_trial_result(1, [trial], trial, {"events": [RunFailed("x"), RunFailed("y")]})
        else:
            listener.on_trial_error(1, [trial], trial)
    with pytest.raises(DeniedError, match="cannot be written, attempt 1"):
        listener.on_step_end(1, [trial])
    assert watch.ticks == 0
