"""Propose Sattler's epsilons from a centralised training, for `fedgrid analyse centralised epsilons`.

The records of such a run have the norm of each epoch's update (`federation.round.record`); `epsilons.rules`
has the rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.partition.scenarios import CENTRALISED
from fedgrid.grids.analyses.analysis import Analysis, Artifacts, Context, Job, JobResult, Summary
from fedgrid.grids.epsilons.rules import EPSILON_2_FACTOR, SETTLED_SHARE, Proposal, propose_settings
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking import figures
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.records import RecordsError, read_records
from fedgrid.tracking.report.page import CaptionedFigure, PageSection
from fedgrid.tracking.tables.epochs import build_epochs_table
from fedgrid.tracking.tables.table import Table

PRESET_SUFFIX = ".yaml"
"""Ending of the file with a preset of the proposal, which `fedgrid run` accepts."""
EPOCHS_SHOWN = 15
"""Most epochs in a terminal's table."""


MakeTables = Callable[[RunConfig, Mapping[str, Array], Path], Iterable[Table]]
"""Function that makes further tables about a training.

It gets the training's configuration, its columns, each of shape (E,), and its folder.
"""


class Epsilons(Analysis):
    """Epsilons and cooldown for `sattler`, by rules of thumb, to start a search from."""

    name = folder = "epsilons"
    # Two columns are read and compared: starting Ray would take longer.
    in_process = True

    def __init__(self, make_tables: MakeTables = lambda *training: ()) -> None:
        """Create the analysis; `beside` makes further tables to show with the proposal, by default none."""
        self._make_tables = make_tables

    def jobs(self, runs: Sequence[RunConfig], options: Any, context: Context) -> Sequence[Job]:
        """Create a job for each run, which must be a centralised training.

        Raises:
            ConfigError: a run is no centralised training.
        """
        for run in runs:
            if run.split.kind != CENTRALISED:
                raise ConfigError(
                    f"{run.name} is a run of {run.clients} clients; epsilons are proposed from a training "
                    f"without clients: `fedgrid run {CENTRALISED} --dataset {run.dataset}`"
                )
        return super().jobs(runs, options, context)

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Compute the proposal of a training, and a preset of it."""
        epochs = read_epochs(context.folder(job.config))
        proposal = propose_settings(epochs["update_l2"].tolist(), epochs["loss"].tolist())
        return Artifacts(asdict(proposal), {PRESET_SUFFIX: format_preset(job.config, proposal).encode()})

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """List the proposed settings as metrics for trackers."""
        return {f"{self.name}/{name}": value for name, value in Proposal(**result.about).settings.items()}

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterator[PageSection]:
        """Yield a section of the report for each training."""
        for result in results:
            epochs, proposal = read_epochs(result.run.folder), Proposal(**result.about)
            plate = CaptionedFigure(
                f"epsilons-{result.run.run_id}",
                "Loss and norms by epoch",
                "The dashed lines are what is proposed for `sattler`.",
                partial(figures.update_norms, epochs, **proposal.settings),
            )
            yield PageSection(
                f"epsilons-{result.run.run_id}",
                f"Epsilons from {result.run.name}",
                "\n\n".join(describe_proposal(proposal)),
                (
                    plate,
                    build_epochs_table(result.run.name, epochs),
                    *self._make_tables(result.job.config, epochs, result.run.folder),
                ),
            )

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], options: Any, grid: GridFolder
    ) -> Summary:
        """Summarise epochs, proposal and options to paste, with the further tables."""
        tables, lines = [], []
        for result in results:
            epochs, proposal = read_epochs(result.run.folder), Proposal(**result.about)
            tables += [
                build_epochs_table(result.run.name, epochs, EPOCHS_SHOWN),
                *self._make_tables(result.job.config, epochs, result.run.folder),
            ]
            lines += [
                "",
                *describe_proposal(proposal),
                f"A preset for `fedgrid run`: {result.files[PRESET_SUFFIX]}",
            ]
        return Summary(tables, lines)

    def figures(self, result: JobResult) -> Mapping[str, Figure]:
        """Draw loss and norms by epoch, with the proposal as dashed lines."""
        settings = Proposal(**result.about).settings
        return {"update_norms": figures.update_norms(read_epochs(result.run.folder), **settings)}


def read_epochs(run_folder: Path) -> dict[str, Array]:
    """Read the columns of a centralised training, each of shape (E,).

    Raises:
        RunError: there are no records, or they are damaged.
    """
    try:
        records = read_records(run_folder)
    except RecordsError as error:
        raise RunError(str(error)) from error
    client_columns = {
        "loss": "train_loss",
        "accuracy": "train_accuracy",
        "server_accuracy": "generalised_accuracy",
        "server_f1": "generalised_f1",
    }
    return {
        # A centralised training is a run with one client: its epochs are rounds, and its scores are the
        # client's.
        "epoch": records.round_R,
        **{name: records.clients[column][:, 0] for name, column in client_columns.items()},
        **{name: records.rounds[name] for name in ("update_l2", "update_l2_state", "weights_l1_change")},
    }


def describe_proposal(proposal: Proposal) -> list[str]:
    """Describe the proposal, its derivation, and the options that set it."""
    low, high = proposal.epsilon_2_range
    settled = "" if proposal.is_settled else ": the last one, so more training.rounds may change it"
    return [
        "Proposed for sattler, by rules of thumb, to start a search from:",
        f"  epsilon_1 = {proposal.epsilon_1:g}: a tenth of the largest update L2, "
        f"{proposal.largest_norm:.4g} in epoch {proposal.largest_norm_epoch}",
        f"  epsilon_2 = {proposal.epsilon_2:g}: {EPSILON_2_FACTOR} x epsilon_1; by the rule {low:g} to "
        f"{high:g}",
        f"  cooldown = {proposal.cooldown}: the epoch after which the loss falls by at most "
        f"{SETTLED_SHARE:.0%} of "
        f"its whole decrease{settled}",
        "  " + " ".join(f"algorithm.{key}={value:g}" for key, value in proposal.settings.items()),
    ]


def format_preset(config: RunConfig, proposal: Proposal) -> str:
    """Format a preset with the proposal, which can be run and whose overrides fit into other presets."""
    training = config.training
    notes = (
        f"From {training.rounds} epochs of {config.name}: {training.optimizer} at {training.learning_rate:g} "
        f"in batches of {training.batch_size}.",
        *describe_proposal(proposal),
    )
    preset: dict[str, Any] = {
        "dataset": config.dataset,
        "model": config.model,
        "algorithm": "sattler",
        "overrides": [
            {
                "when": {"dataset": config.dataset, "algorithm": "sattler"},
                "then": {"algorithm": proposal.settings},
            }
        ],
    }
    return "".join(f"# {note}\n" for note in notes) + yaml.safe_dump(preset, sort_keys=False)
