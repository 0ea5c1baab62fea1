"""Schedules runs with Ray Tune: one trial a run, each in a placement group of its own.

Resuming is ours, not Tune's: a trial continues from its run's folder, so Tune's own files are thrown away.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "3600")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")

from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.stopper import Stopper

from fedgrid.engine.errors import RunError
from fedgrid.grids.execution.trial import Job, Trial
from fedgrid.grids.execution.watch import Watch


def run_trials(job: Job, watch: Watch, retries: int) -> None:
    """Run every run of `job` and tell `watch`; a run that fails is tried again, then left.

    Raises:
        FedgridError: what `watch` raises, as when the cluster can no longer carry the runs.
    """
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    with TemporaryDirectory(prefix="fedgrid-") as folder:
        tune.run(
            tune.with_resources(
                tune.with_parameters(Trial, job=job),
                lambda config: tune.PlacementGroupFactory(job.placement(config["index"]).bundles()),
            ),
            config={"index": tune.grid_search(list(range(len(job.runs))))},
            name="tune",
            storage_path=folder,
            reuse_actors=True,
            max_failures=retries,
            raise_on_failed_trial=False,
            stop=_AllStopped(watch),
            callbacks=[_Listener(job, watch)],
            trial_name_creator=_name,
            trial_dirname_creator=_name,
            verbose=0,
        )


def _name(trial: TuneTrial) -> str:
    return str(trial.trial_id)


class _Listener(tune.Callback):
    """Hands what Tune hears from the trials to the watch."""

    def __init__(self, job: Job, watch: Watch) -> None:
        self._runs = job.runs
        self._watch = watch

    def on_step_end(self, iteration: int, trials: Sequence[TuneTrial], **info: Any) -> None:
        self._watch.tick()

    def on_trial_result(
        self,
        iteration: int,
        trials: Sequence[TuneTrial],
        trial: TuneTrial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        for news in result["news"]:
            self._watch.take(self._run(trial), news)

    def on_trial_complete(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        # Tune keeps every trial until the last has ended: without what it heard, 5 KB instead of 20.
        trial.run_metadata = type(trial.run_metadata)(n_steps=(1,))

    def on_trial_recover(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        self._watch.retry(self._run(trial), _cause(trial), trial.run_metadata.num_failures)

    def on_trial_error(
        self, iteration: int, trials: Sequence[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        self._watch.fail(self._run(trial), _cause(trial), trial.run_metadata.num_failures)

    def _run(self, trial: TuneTrial) -> Any:
        return self._runs[trial.config["index"]]


class _AllStopped(Stopper):
    """Ends Tune once every run that was under way has stopped as asked; those waiting never start."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __getstate__(self) -> dict[str, Any]:
        # Tune writes it down, and nobody reads that.
        return {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._watch.all_stopped


def _cause(trial: TuneTrial) -> str:
    """Return why a trial failed last, in one line, from the text that Tune keeps."""
    text = Path(trial.error_file).read_text().rstrip() if trial.error_file else ""
    mark = f"{RunError.__name__}: "
    last = text.splitlines()[-1] if text else ""
    if mark in last:
        return last.partition(mark)[2]
    return f"the run's server died: {last or 'no more is known'}"
