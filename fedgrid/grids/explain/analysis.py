"""The analysis `explain`: a job explains the images of one distribution of one run.

Its records, `explanations/<key>.parquet`, have a row an image.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from fedgrid.engine.runtime.storage.hints import command
from fedgrid.grids.analyses.analysis import (
    Analysis,
    Artifacts,
    Context,
    GridFolder,
    Job,
    JobResult,
    PageSection,
    RunConfig,
    Summary,
)
from fedgrid.grids.explain import estimate
from fedgrid.grids.explain.compute.records import parquet_bytes
from fedgrid.grids.explain.compute.settings import Explaining
from fedgrid.grids.explain.jobs import ExplainOptions, make_jobs
from fedgrid.grids.explain.read import CLASSES, RECORDS, ReadJob, read_result, summarise
from fedgrid.grids.explain.shown.maps import map_grid
from fedgrid.grids.explain.shown.results import ExplainedGrid, sentence
from fedgrid.grids.explain.shown.sections import own_sections
from fedgrid.grids.explain.shown.tables import own_scores
from fedgrid.tracking import figures
from fedgrid.tracking.explained.scores import DISTRIBUTIONS, OWN_SCORES, run_means
from fedgrid.tracking.names import AS_PUBLISHED


class Explain(Analysis):
    """Which pixels the models of runs rest on."""

    name = verb = "explain"
    settings = Explaining
    options = ExplainOptions
    folder = "explanations"
    unit = "images"
    on_gpu = True
    whole_grid = False

    def jobs(self, runs: Sequence[RunConfig], asked: ExplainOptions, context: Context) -> Sequence[Job]:
        """Return a job for each run and distribution."""
        return make_jobs(runs, asked, context)

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Return the records, the shape of an image, and the names of the classes, if they have names."""
        # Importing torch takes seconds.
        from fedgrid.grids.explain.compute.explained_run import explain_run

        state = context.state(job)
        table = explain_run(job.config, state, context.data_dir, job.settings, context.device, context.done)
        dataset = context.dataset(job.config)
        names = {CLASSES: list(dataset.class_names)} if dataset.class_names else {}
        return Artifacts({"shape": list(dataset.inputs.shape), **names}, {RECORDS: parquet_bytes(table)})

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Return the means over a run's images by name, as `explanations/members_gap`."""
        return metrics_of(read_result(result))

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterator[PageSection]:
        """Yield a section for each style and number of clients."""
        return own_sections(styles(results, missing), published=published)

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], asked: ExplainOptions, grid: GridFolder
    ) -> Summary:
        """Return the tables of scores by number of clients and distribution."""
        explained = summarise([read_result(one) for one in results], len(missing))
        tables = [
            own_scores(part.explained, on)
            for clients in sorted({one.scenario[1] for one in explained.explained})
            for part in [explained.of_clients(clients)]
            for on in DISTRIBUTIONS
            if any(one.on == on for one in part.explained)
        ]
        sentences = [text for on in DISTRIBUTIONS if (text := sentence(explained, on))]
        lines = [explained.about, *sentences, *explained.lacking] if tables else []
        facts = {
            "about": explained.about,
            "sentences": sentences,
            "lacking": list(explained.lacking),
            "scores": list(_rows(explained)),
        }
        last = f"Curves, maps and tests:  {command(grid.storage, 'report', grid.name)}"
        return Summary(tables, lines, facts, last)

    def pictures(self, result: JobResult, folder: Path) -> Iterator[Path]:
        """Draw the maps."""
        if shown := summarise([read_result(result)]).shown:
            path = folder / f"maps-{result.job.key}.png"
            figures.save(map_grid(shown), path)
            yield path

    def slot(self, job: Job) -> str:
        """Return the distribution and the style."""
        return f"{job.settings.on} {_style(job)}".rstrip()

    def label(self, job: Job) -> str:
        """Return the distribution."""
        return str(job.settings.on)

    def size(self, job: Job) -> int:
        """Return the number of images; as published, of a run with one cluster."""
        return int(job.settings.images) * (1 if job.settings.as_published else job.config.clients)

    def plan(
        self, jobs: Sequence[Job], todo: Sequence[Job], data_dir: Path, cores: int
    ) -> Iterator[dict[str, Any]]:
        """Yield a row for each data set and distribution, with the hours."""
        return estimate.rows_of(jobs, todo, data_dir, cores)


EXPLAIN = Explain()


def styles(results: Sequence[JobResult], missing: Sequence[Job] = ()) -> dict[str, ExplainedGrid]:
    """Return by style what a report shows; `missing` are the jobs that have no results yet."""
    by_style: dict[str, list[ReadJob]] = {}
    for result in results:
        by_style.setdefault(_style(result.job), []).append(read_result(result))
    return {
        style: summarise(read, sum(_style(job) == style for job in missing))
        for style, read in by_style.items()
    }


def metrics_of(read: ReadJob) -> dict[str, float]:
    """Return the means over a run's images by name, as `explanations/members_gap`."""
    explained = summarise([read]).explained
    style = "_as_published" if read.settings.as_published else ""
    metrics = {}
    for score in OWN_SCORES:
        for scenarios in run_means(explained, read.settings.on, score).values():
            for seeds in scenarios.values():
                name = score.name.replace(" / p", "_by_p").replace(" ", "_")
                metrics[f"explanations/{read.settings.on}_{name}{style}"] = next(iter(seeds.values()))
    return metrics


def _style(job: Job) -> str:
    return AS_PUBLISHED if job.settings.as_published else ""


def _rows(explained: ExplainedGrid) -> Iterator[dict[str, Any]]:
    for on in DISTRIBUTIONS:
        for score in OWN_SCORES:
            for algorithm, scenarios in run_means(explained.explained, on, score).items():
                for scenario, seeds in scenarios.items():
                    for seed, value in seeds.items():
                        yield {
                            "on": on,
                            "algorithm": algorithm,
                            "scenario": list(scenario),
                            "seed": seed,
                            "score": score.name,
                            "value": None if isnan(value) else value,
                        }
