"""The analysis `attack`: a job attacks one run; its rows are numbers of a client or a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isclose
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.grids.analyses.analysis import Analysis, Artifacts, Context, Job, JobResult, Summary
from fedgrid.grids.attack.pictures import Picture, draw_pictures
from fedgrid.grids.attack.settings import ATTACK_KINDS, AttackSettings
from fedgrid.grids.attack.show import build_kind_table, compare_published, compute_means, read_numbers
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.redaction import format_csv
from fedgrid.tracking import records
from fedgrid.tracking.report.page import PageSection

if TYPE_CHECKING:
    from fedgrid.engine.federation.encoders.encoder import Encoder
    from fedgrid.engine.runtime.run.replay import ObservedRound

SAME_NORM = 1e-6
"""Relative difference of an update's norm up to which it counts as the run's own."""
TEXT = (
    "What a server, or another party that has the clusters' models, learns of the clients' images: "
    "docs/attacks.md. Of the runs that were finished when they were last attacked."
)


class Attack(Analysis):
    """Measures what models, updates, messages and clusters reveal about clients' images."""

    name = "attack"
    settings = AttackSettings
    folder = "attacks"

    def jobs(self, runs: Sequence[RunConfig], options: AttackSettings, context: Context) -> Sequence[Job]:
        """Plan a job for each run. If `round` is a run's last one, the job is the same as without it.

        Raises:
            ConfigError: No run has the round, or the inputs to reconstruct are not images.
        """
        greatest = max((context.last_round(run) for run in runs), default=0)
        if runs and options.round is not None and options.round > greatest:
            raise ConfigError(f"round={options.round}: no run has more than {greatest} rounds")
        jobs = []
        for run in runs:
            context.dataset(run).check_classes("attack", "dataset")
            if options.kind == "reconstruction":
                context.dataset(run).check_kind("attack kind=reconstruction", ("pixels",), "dataset")
            last = context.last_round(run)
            is_last = options.round in (None, last)
            # The settings make the name of the results: an attack after the last round must have one name
            # only.
            settings = options.model_copy(update={"round": None}) if is_last else options
            jobs.append(Job(run, settings, settings.key, settings.round or last))
        return jobs

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Attack one run; the result has rows, and a picture of what was reconstructed.

        Raises:
            ConfigError: A state is missing: the run was imported, or its states were deleted.
            RunError: A state is damaged, or the encoder is missing.
        """
        # Importing torch takes seconds.
        from fedgrid.engine.runtime.run.pretraining import load_run_encoder
        from fedgrid.engine.runtime.run.replay import observe_round

        config = job.config
        before, after = load_states(job, context)
        encoder = load_run_encoder(config, context.folder(config), context.storage)
        observed = observe_round(config, before, after, context.data_dir, encoder)
        _check_norms(job, context, {client: sent.norm for client, sent in observed.sent.items()})
        # As in the run, so that the updates are the same bits.
        with observed.fix_run_numerics():
            rows, drawings = run_attack(observed, job.settings, encoder)
        pictures = {}
        if drawings:
            title = f"{config.scenario}, seed {config.seed}: {context.runs[config.run_id].algorithm}"
            pictures["-images.png"] = draw_pictures(drawings, title, context.dataset(config).class_names)
        return Artifacts({"rows": rows}, pictures)

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Compute a run's means by name, as `attack/membership_updates_auc`."""
        settings = result.job.settings
        at = "" if settings.round is None else f"_round_{settings.round}"
        return {
            "attack/" + f"{settings.kind} {name}".lower().replace("'s", "").replace(" ", "_") + at: value
            for name, value in compute_means(result).items()
        }

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterator[PageSection]:
        """Build a section with a table of each kind, with `published` followed by a paper's numbers."""
        tables = []
        for kind in ATTACK_KINDS:
            if kind_results := [result for result in results if result.job.settings.kind == kind]:
                numbers = read_numbers(kind_results)
                tables.append(build_kind_table(kind, numbers))
                if published and kind == "reconstruction" and (compared := compare_published(numbers)):
                    tables.append(compared)
        yield PageSection("attacks", "Attacks", TEXT, items=tuple(tables))

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], options: AttackSettings, grid: GridFolder
    ) -> Summary:
        """Build a table for each scenario, and write all rows to a csv file in the grid's folder.

        Args:
            results: Results of the jobs.
            missing: Jobs without results.
            options: The attack.
            grid: Folder of the grid.
        """
        name = f"{self.folder}/{options.key}.csv"
        grid.write_file(name, _format_csv(results))
        numbers = read_numbers(results)
        tables = [
            build_kind_table(
                options.kind, [pair for pair in numbers if pair[0].scenario == scenario], options.round
            )
            for scenario in dict.fromkeys(run.scenario for run, _ in numbers)
        ]
        return Summary(tables, [f"Every client: {grid.path / name}"])

    def slot(self, job: Job) -> str | None:
        """Name the kind of the attack. The report shows attacks after the last round only."""
        return job.settings.kind if job.settings.round is None else None


ATTACK = Attack()


def load_states(job: Job, context: Context) -> tuple[RunState | None, RunState]:
    """Load the run's states before and after the round.

    The former is None before round 1, or if it was deleted.

    Raises:
        ConfigError: A state is missing.
        RunError: A state is damaged.
    """
    context.check_state(job.config, job.round)
    # The state before the last round is always stored, so that its absence is an error. Before other rounds
    # there may be none, and attacks on updates are then left out.
    if job.round == context.last_round(job.config) > 1:
        context.check_state(job.config, job.round - 1)
    has_before = job.round - 1 in context.stored_rounds(job.config)
    return context.state(job, job.round - 1) if has_before else None, context.state(job)


def run_attack(
    observed: "ObservedRound", settings: AttackSettings, encoder: "Encoder | None"
) -> "tuple[list[dict[str, Any]], Sequence[Picture]]":
    """Make an attack within `observed.numerics()`.

    Args:
        observed: The replayed round.
        settings: Kind and settings of the attack.
        encoder: What made the run's messages, for reconstruction; None if the run has none.

    Returns:
        A row for each client, model or class, and pictures.

    Raises:
        ConfigError: The run has nothing that the attack can be made on.
    """
    from fedgrid.grids.attack.classes import guess_classes
    from fedgrid.grids.attack.membership import infer_membership
    from fedgrid.grids.attack.reconstruction import MAX_PARAMETERS, reconstruct_images

    # An update of zeros says nothing, as that of FedProto, whose clients send prototypes alone.
    sent = {client: sent for client, sent in observed.sent.items() if sent.update.any()}
    observed = replace(observed, sent=sent)
    match settings.kind:
        case "membership":
            return infer_membership(observed), ()
        case "class":
            return guess_classes(observed), ()
        case "reconstruction":
            rows, pictures = reconstruct_images(observed, settings, encoder)
            if not rows and (size := observed.layout.num_parameters) > MAX_PARAMETERS:
                raise ConfigError(
                    f"{observed.config.model} has {size:,} parameters, and updates of up to "
                    f"{MAX_PARAMETERS:,} are "
                    "inverted"
                )
            return rows, pictures


def _check_norms(job: Job, context: Context, norms: Mapping[int, float]) -> None:
    """Warn if the replayed updates are not those of the run, as on another kind of machine."""
    columns = ["round", "client", "update_norm"]
    rows = records.read_table(context.folder(job.config), "clients", columns=columns).to_pylist()
    recorded = {row["client"]: row["update_norm"] for row in rows if row["round"] == job.round}
    other = [
        client
        for client, norm in norms.items()
        if not isclose(norm, recorded[client] or 0.0, rel_tol=SAME_NORM)
    ]
    if other:
        warn(
            f"{job.config.name}: this machine computes the updates of {len(other)} clients with other bits "
            "than the run did; the updates computed here are attacked"
        )


def _format_csv(results: Sequence[JobResult]) -> str:
    """Format all rows as CSV, each with its run."""
    rows = [
        {
            "run": run.name,
            "run_id": run.run_id,
            "dataset": run.dataset,
            "split": run.split,
            "num_clients": run.clients,
            "algorithm": run.algorithm,
            "seed": run.seed,
            **dict(run.setting),
            **row,
        }
        for run, row in ((result.run, row) for result in results for row in result.about["rows"])
    ]
    columns = dict.fromkeys(name for row in rows for name in row)
    return format_csv([columns, *([row.get(name, "") for name in columns] for row in rows)])
