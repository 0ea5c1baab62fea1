"""The analysis `attack`: a job attacks one run; its rows are a client's or a model's numbers."""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.grids.analyses.analysis import Analysis, Artifacts, Context, Job, JobResult, Summary
from fedgrid.grids.attack.pictures import Picture, draw_pictures
from fedgrid.grids.attack.settings import ATTACK_KINDS, Attacking
from fedgrid.grids.attack.show import attack_means, attack_table, read_numbers, table_beside_published
from fedgrid.grids.display.plain import warn
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.redaction import csv_text
from fedgrid.tracking import records
from fedgrid.tracking.report.page import PageSection

if TYPE_CHECKING:
    from fedgrid.engine.federation.encoders.encoder import Encoder
    from fedgrid.engine.runtime.run.replay import Observed

SAME_NORM = 1e-6
"""Relative difference of an update's norm up to which it is the run's own."""
TEXT = (
    "What a server, or another party that has the clusters' models, learns of the clients' images: "
    "docs/attacks.md. Of the runs that were finished when they were last attacked."
)


class Attack(Analysis):
    """What models, updates, messages and clusters tell of clients' images."""

    name = "attack"
    settings = Attacking
    folder = "attacks"

    def jobs(self, runs: Sequence[RunConfig], options: Attacking, context: Context) -> Sequence[Job]:
        """Return a job for each run; after its last round it is the same with the round's number.

        Raises:
            ConfigError: no run has the round, or what is to be reconstructed is no image.
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
            settings = options.model_copy(update={"round": None}) if is_last else options
            jobs.append(Job(run, settings, settings.key, settings.round or last))
        return jobs

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Return the rows, and a picture of what was reconstructed.

        Raises:
            ConfigError: a state is not there: the run was imported, or its states were deleted.
            RunError: a state is damaged, or the encoder is gone.
        """
        # Importing torch takes seconds.
        from fedgrid.engine.runtime.run.pretraining import encoder_of
        from fedgrid.engine.runtime.run.replay import observe

        config = job.config
        before, after = states(job, context)
        encoder = encoder_of(config, context.folder(config), context.storage)
        observed = observe(config, before, after, context.data_dir, encoder)
        _check_norms(job, context, {client: sent.norm for client, sent in observed.sent.items()})
        with observed.numerics():
            rows, drawings = run_attack(observed, job.settings, encoder)
        pictures = {}
        if drawings:
            title = f"{config.scenario}, seed {config.seed}: {context.runs[config.run_id].algorithm}"
            pictures["-images.png"] = draw_pictures(drawings, title, context.dataset(config).class_names)
        return Artifacts({"rows": rows}, pictures)

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Return a run's means by name, as `attack/membership_updates_auc`."""
        settings = result.job.settings
        at = "" if settings.round is None else f"_round_{settings.round}"
        return {
            "attack/" + f"{settings.kind} {name}".lower().replace("'s", "").replace(" ", "_") + at: value
            for name, value in attack_means(result).items()
        }

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterator[PageSection]:
        """Yield a section with a table of each kind; with `published` a paper's beside that of these runs."""
        tables = []
        for kind in ATTACK_KINDS:
            if of_kind := [result for result in results if result.job.settings.kind == kind]:
                numbers = read_numbers(of_kind)
                tables.append(attack_table(kind, numbers))
                if published and kind == "reconstruction" and (beside := table_beside_published(numbers)):
                    tables.append(beside)
        yield PageSection("attacks", "Attacks", TEXT, items=tuple(tables))

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], options: Attacking, grid: GridFolder
    ) -> Summary:
        """Return a table for each scenario; all rows go to a csv file in the grid's folder."""
        name = f"{self.folder}/{options.key}.csv"
        grid.write(name, _csv(results))
        numbers = read_numbers(results)
        tables = [
            attack_table(
                options.kind, [pair for pair in numbers if pair[0].scenario == scenario], options.round
            )
            for scenario in dict.fromkeys(run.scenario for run, _ in numbers)
        ]
        return Summary(tables, [f"Every client: {grid.path / name}"])

    def slot(self, job: Job) -> str | None:
        """Return the kind; the report shows attacks after the last round."""
        return job.settings.kind if job.settings.round is None else None


ATTACK = Attack()


def states(job: Job, context: Context) -> tuple[RunState | None, RunState]:
    """Return the run's states before and after the round; None before the first, or if it is gone.

    Raises:
        ConfigError, RunError: as `Attack.compute`.
    """
    context.check_state(job.config, job.round)
    if job.round == context.last_round(job.config) > 1:
        context.check_state(job.config, job.round - 1)
    has_before = job.round - 1 in context.stored(job.config)
    return context.state(job, job.round - 1) if has_before else None, context.state(job)


def run_attack(
    observed: "Observed", settings: Attacking, encoder: "Encoder | None"
) -> "tuple[list[dict[str, Any]], Sequence[Picture]]":
    """Return what an attack has found, a row a client, model or class, and its pictures.

    `encoder` is what made the run's messages, for reconstruction. To be called within `observed.numerics()`.

    Raises:
        ConfigError: there is nothing that the attack can be made on.
    """
    from fedgrid.grids.attack.classes import classes
    from fedgrid.grids.attack.membership import membership
    from fedgrid.grids.attack.reconstruction import LARGEST, reconstruction

    match settings.kind:
        case "membership":
            return membership(observed), ()
        case "class":
            return classes(observed), ()
        case "reconstruction":
            rows, pictures = reconstruction(observed, settings, encoder)
            if not rows and (size := observed.layout.num_parameters) > LARGEST:
                raise ConfigError(
                    f"{observed.config.model} has {size:,} parameters, and updates of up to {LARGEST:,} are "
                    "inverted"
                )
            return rows, pictures


def _check_norms(job: Job, context: Context, norms: Mapping[int, float]) -> None:
    """Warn if the updates are not those of the run, as on another kind of machine."""
    columns = ["round", "client", "update_norm"]
    rows = records.table(context.folder(job.config), "clients", columns=columns).to_pylist()
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


def _csv(results: Sequence[JobResult]) -> str:
    """Return all rows as text, each with its run."""
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
    return csv_text([columns, *([row.get(name, "") for name in columns] for row in rows)])
