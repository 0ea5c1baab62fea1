"""Schedule runs with Ray Tune: one trial for each run, each in its own placement group.

A trial resumes from its run's folder, not from Tune's files, which are deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.stopper import Stopper

from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.runtime.leases.scratch import create_scratch_folder
from fedgrid.grids.execution.run_events import RoundDone, RunFailed
from fedgrid.grids.execution.server_deadlines import ServerDeadlines
from fedgrid.grids.execution.server_trainable import LaunchContext, ServerTrainable
from fedgrid.grids.ray_cluster.local import lighten_tune

if TYPE_CHECKING:
    from fedgrid.grids.execution.watch import Watch


def run_trials(context: LaunchContext, watch: Watch, deadlines: ServerDeadlines | None = None) -> None:
    """Execute every run of a launch and pass the events to `watch`.

    A run that fails is retried, unless it would fail again. A run whose server is silent beyond `deadlines`
    fails, and its server is killed.

    Raises:
        FedgridError: what `watch` raises, for instance if no run fits on the cluster any more.
    """
    listener = _TrialCallback(context, watch, deadlines or ServerDeadlines())
    with_context = tune.with_parameters(ServerTrainable, context=context)
    num_attempts, indices = 0, list(range(len(context.runs)))
    with lighten_tune():
        while indices and not watch.all_stopped:
            _run_tune(with_context, indices, num_attempts, context, listener)
            num_attempts, indices, listener.given_up = num_attempts + 1, listener.given_up, []


def _run_tune(
    trainable: Any,
    indices: list[int],
    num_attempts: int,
    context: LaunchContext,
    listener: _TrialCallback,
) -> None:
    """Run Tune on the runs of these indices; it may retry them only the first time.

    Args:
        trainable: the server actor's class, with its context.
        indices: indices of the runs.
        given: how often these runs were given to Tune before.
        context: what the trials share.
        listener: receives what Tune reports.
    """
    with create_scratch_folder() as folder:
        tune.run(
            tune.with_resources(
                trainable,
                lambda config: tune.PlacementGroupFactory(
                    context.find_placement(config["index"]).build_bundles()
                ),
            ),
            # An index, not the configuration itself, since Tune keeps and copies what a trial is given.
            config={"index": tune.grid_search(indices), "failures": num_attempts},
            name="tune",
            storage_path=str(folder),
            # A server and its client actors, each of which imports torch, take seconds to start.
            reuse_actors=True,
            # Tune counts the failures of a trial; over several trials of one run the listener counts them.
            max_failures=0 if num_attempts else context.options.retries,
            raise_on_failed_trial=False,
            stop=_AllRunsStopper(listener.watch),
            callbacks=[listener],
            trial_name_creator=_name_trial,
            trial_dirname_creator=_name_trial,
            verbose=0,
        )


def _name_trial(trial: TuneTrial) -> str:
    """Name a trial by its id; Tune's default lists the configuration."""
    return str(trial.trial_id)


class _TrialCallback(tune.Callback):
    """Passes what Tune receives from the trials to the watch.

    A server that dies between two runs is found dead when the next run is to start on it. Tune then calls
    `on_trial_recover` and, for the same death, `on_trial_error`: it does not start that trial again, whatever
    `max_failures` says. Failures are counted here, therefore, and such runs are left for another `_run_tune`.
    """

    def __init__(self, context: LaunchContext, watch: Watch, deadlines: ServerDeadlines) -> None:
        self._runs = context.runs
        self.watch = watch
        self._retries = context.options.retries
        self._deadlines = deadlines
        self._running: dict[str, TuneTrial] = {}
        self._hung: dict[str, str] = {}
        self._failures = Counter[int]()
        self._recovering: set[str] = set()
        """Ids of trials that have failed and not started again."""
        self._error: FedgridError | None = None
        self.given_up: list[int] = []
        """Indices of runs that Tune has given up although retries are left."""

    @contextmanager
    def _defer_error(self) -> Iterator[None]:
        """Keep an error until the step ends; raised in a trial's callback, Tune would turn it into text."""
        try:
            yield
        except FedgridError as error:
            self._error = self._error or error

    def on_step_end(self, iteration: int, trials: Sequence[TuneTrial], **info: Any) -> None:
        """Kill servers that hang, and check the launch; called by Tune after every step of its loop."""
        if self._error is not None:
            raise self._error
        for trial_id, limit in self._deadlines.pop_overdue():
            self._hung[trial_id] = f"its server did not respond for {limit:.0f} s, and was killed"
            actor = self._running[trial_id].temporary_state.ray_actor
            if actor is not None:
                ray.kill(actor)
        self.watch.check_launch()

    def on_trial_start(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Start the deadline of a trial's server; called by Tune when it starts or resumes a trial."""
        self._running[trial.trial_id] = trial
        self._recovering.discard(trial.trial_id)
        self._deadlines.start_wait(trial.trial_id)

    def on_trial_result(
        self,
        iteration: int,
        trials: Sequence[TuneTrial],
        trial: TuneTrial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        """Pass events to the watch; called by Tune for each result of `ServerTrainable.step`."""
        finished_round = any(isinstance(event, RoundDone) for event in result["events"])
        self._deadlines.record_sign(trial.trial_id, finished_round=finished_round)
        with self._defer_error():
            for event in result["events"]:
                if isinstance(event, RunFailed):
                    attempts = self._failures[trial.config["index"]] + 1
                    self.watch.record_failure(self._find_run(trial), event.cause, attempts)
                else:
                    self.watch.handle_event(self._find_run(trial), event)

    def on_trial_complete(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """End a trial whose run has finished, stopped or failed for good; called by Tune."""
        # Tune keeps every trial until the last has ended. Without its results that is 5 KB instead of 20 KB.
        self._end_trial(trial)
        trial.run_metadata = type(trial.run_metadata)(n_steps=(1,))

    def on_trial_recover(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Report a failure that Tune will retry; called by Tune."""
        self._recovering.add(trial.trial_id)
        cause = self._count_failure(trial)
        self.watch.record_retry(self._find_run(trial), cause, trial.config["failures"])

    def on_trial_error(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Report a failure after which Tune gives up a trial, and keep its run for the retries left."""
        index = trial.config["index"]
        # The same death, counted in `on_trial_recover` already.
        if trial.trial_id in self._recovering:
            self.given_up.append(index)
            return
        cause = self._count_failure(trial)
        if self._failures[index] > self._retries:
            with self._defer_error():
                self.watch.record_failure(self._find_run(trial), cause, self._failures[index])
        else:
            self.watch.record_retry(self._find_run(trial), cause, self._failures[index])
            self.given_up.append(index)

    def _count_failure(self, trial: TuneTrial) -> str:
        """Count a failure of a run, and return its cause."""
        index = trial.config["index"]
        self._failures[index] += 1
        # The server reads it when it starts the run again, and waits longer each time.
        trial.config["failures"] = self._failures[index]
        return self._end_trial(trial) or _read_cause(trial)

    def _end_trial(self, trial: TuneTrial) -> str | None:
        """Stop waiting for a trial's server; return the cause if it was killed because it hung."""
        self._running.pop(trial.trial_id, None)
        self._deadlines.end_wait(trial.trial_id)
        return self._hung.pop(trial.trial_id, None)

    def _find_run(self, trial: TuneTrial) -> Any:
        """Find the run of a trial."""
        return self._runs[trial.config["index"]]


class _AllRunsStopper(Stopper):
    """Ends Tune once every run in progress has stopped as requested; waiting runs never start."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles this object into a file that is never read.
        return {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        """Check whether the whole launch has stopped; called by Tune after each result."""
        return self._watch.all_stopped


def _read_cause(trial: TuneTrial) -> str:
    """Read the cause of a trial's last failure, in one line, from the text that Tune stores."""
    text = Path(trial.error_file).read_text().rstrip() if trial.error_file else ""
    mark = f"{RunError.__name__}: "
    last = text.splitlines()[-1] if text else ""
    if mark in last:
        return last.partition(mark)[2]
    return f"the run's server died: {last or 'no more is known'}"
