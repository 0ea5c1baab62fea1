"""The analysis `attack`: a job attacks one run; its rows are a client's or a model's numbers."""

from collections.abc import Iterator, Mapping, Sequence

from fedgrid.grids.analyses.analysis import (
    Analysis,
    Artifacts,
    ConfigError,
    Context,
    GridFolder,
    Job,
    JobResult,
    PageSection,
    RunConfig,
    Summary,
    Table,
)
from fedgrid.grids.attack.compute import attack
from fedgrid.grids.attack.settings import ATTACK_KINDS, Attacking, AttackKind
from fedgrid.grids.attack.show import COLUMNS, LEVEL, SummaryRows, summary_of, table_of
from fedgrid.grids.display.plain import warn
from fedgrid.grids.results.study import readable_results
from fedgrid.redaction import csv_text
from fedgrid.tracking.papers.prigent.tables import against_attack

MESSAGES = "error from messages MSE"
TEXT = (
    "What a server, or another party that has the clusters' models, learns of the clients' images: "
    "docs/attacks.md. Of the runs that were finished when they were last attacked."
)


class Attack(Analysis):
    """What models, updates, messages and clusters tell of clients' images."""

    name = verb = "attack"
    settings = Attacking
    folder = "attacks"

    def jobs(self, runs: Sequence[RunConfig], asked: Attacking, context: Context) -> Sequence[Job]:
        """Return a job for each run; after its last round it is the same with the round's number.

        Raises:
            ConfigError: no run has the round, or what is to be reconstructed is no image.
        """
        greatest = max((context.last_round(run) for run in runs), default=0)
        if runs and asked.round is not None and asked.round > greatest:
            raise ConfigError(f"round={asked.round}: no run has more than {greatest} rounds")
        jobs = []
        for run in runs:
            context.dataset(run).check_classes("attack", "dataset")
            if asked.kind == "reconstruction":
                context.dataset(run).check_kind("attack kind=reconstruction", ("pixels",), "dataset")
            last = context.last_round(run)
            is_last = asked.round in (None, last)
            settings = asked.model_copy(update={"round": None}) if is_last else asked
            jobs.append(Job(run, settings, settings.key, settings.round or last))
        return jobs

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Return the rows, and a picture of what was reconstructed."""
        return attack(job, context)

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Return a run's means by name, as `attack/membership_updates_auc`."""
        settings = result.job.settings
        at = "" if settings.round is None else f"_round_{settings.round}"
        means = {}
        for heading, of in COLUMNS[settings.kind].items():
            words = " ".join((settings.kind, *heading)).lower().replace("'s", "")
            means["attack/" + words.replace(" ", "_") + at] = of(result.about["rows"])
        return means

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterator[PageSection]:
        """Yield a section with a table of each kind; with `published` a paper's beside that of these runs."""
        tables = []
        for kind in ATTACK_KINDS:
            if of_kind := [result for result in results if result.job.settings.kind == kind]:
                summary = _summary(kind, of_kind)
                tables.append(table_of(kind, summary))
                if published and kind == "reconstruction" and (beside := _beside(summary)) is not None:
                    tables.append(beside)
        yield PageSection("attacks", "Attacks", TEXT, items=tuple(tables))

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], asked: Attacking, grid: GridFolder
    ) -> Summary:
        """Return a table for each scenario; all rows go to a csv file in the grid's folder."""
        summary = _summary(asked.kind, results)
        name = f"{self.folder}/{asked.key}.csv"
        grid.write(name, _csv(results))
        tables = [
            table_of(asked.kind, [row for row in summary if row["scenario"] == scenario], asked.round)
            for scenario in dict.fromkeys(row["scenario"] for row in summary)
        ]
        captions = list(dict.fromkeys(table.caption for table in tables))
        return Summary(tables, captions, {"rows": summary}, f"Every client: {grid.path / name}")

    def slot(self, job: Job) -> str | None:
        """Return the kind; the report shows attacks after the last round."""
        return job.settings.kind if job.settings.round is None else None


ATTACK = Attack()


def _summary(kind: AttackKind, results: Sequence[JobResult]) -> SummaryRows:
    scores = readable_results(
        (result.run for result in results), lambda error: warn(f"{error}; its attack is left out")
    )
    readable = [result for result in results if result.run.run_id in scores]
    return summary_of(
        kind, [(result.run, row) for result in readable for row in result.about["rows"]], scores
    )


def _beside(summary: SummaryRows) -> Table | None:
    errors = {
        level: [value for value in row[MESSAGES] if value is not None]
        for row in summary
        if (level := row.get(LEVEL))
    }
    return against_attack(errors)


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
