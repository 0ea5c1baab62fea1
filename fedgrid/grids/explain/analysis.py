"""The analysis `explain`: a job explains the images of one distribution of one run.

Its records, `explanations/<key>.parquet`, have a row for each image. All checks come before anything starts.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from matplotlib.figure import Figure
from pydantic import field_validator, model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.integrity.tables import encode_parquet
from fedgrid.grids.analyses.analysis import Analysis, Artifacts, Context, Job, JobResult, Summary
from fedgrid.grids.explain.compute.settings import (
    IMAGES,
    PUBLISHED_IMAGES,
    PUBLISHED_PIXELS,
    STEPS,
    Baseline,
    ExplanationSettings,
    On,
    find_named_layer,
)
from fedgrid.grids.explain.shown.figures import draw_map_grid
from fedgrid.grids.explain.shown.results import (
    CLASSES,
    RECORDS,
    ExplainedGrid,
    JobRecords,
    format_sentence,
    read_result,
    summarise_records,
)
from fedgrid.grids.explain.shown.sections import build_own_scores_table, build_own_sections
from fedgrid.grids.presets.yaml_file import prefix_errors
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.explained.scores import DISTRIBUTIONS, OWN_SCORES, compute_run_means
from fedgrid.tracking.names import AS_PUBLISHED
from fedgrid.tracking.report.page import PageSection

LAST: Literal["last"] = "last"


class ExplainOptions(Section):
    """Which images of finished runs are explained, and how. Its fields are the keys of the command line."""

    on: tuple[On, ...] = get_args(On)
    """Owners of the images: members (the model's own clients), others, server; or several."""
    images: PositiveInt | None = None
    """Images of each client; None means 24, or all if a client has fewer."""
    steps: PositiveInt | None = None
    """Most steps of a curve; None means 32."""
    round: PositiveInt | Literal["last"] = LAST
    """Round after which the state is explained."""
    baseline: Baseline | None = None
    """Replacement of removed pixels: the mean colour of the client's images, black, or blurred; None means
    mean."""
    as_published: bool = False
    """Whether images are explained as in the OCFL journal paper, with its mistakes."""

    @field_validator("on", mode="before")
    @classmethod
    def _convert_to_list(cls, given: Any) -> Any:
        """Convert one name to a list."""
        return [given] if isinstance(given, str) else given

    @field_validator("on")
    @classmethod
    def _sort_names(cls, names: tuple[On, ...]) -> tuple[On, ...]:
        """Sort the names, so that their order on the command line makes no other jobs."""
        return tuple(on for on in get_args(On) if on in names)

    @model_validator(mode="after")
    def _check_published(self) -> Self:
        """Refuse settings that the published computation fixes."""
        for key, value in (("steps", self.steps), ("baseline", self.baseline)):
            if self.as_published and value is not None:
                raise ValueError(
                    f"{key}={value} with as_published=true, which has a black baseline and "
                    f"{PUBLISHED_PIXELS} pixels a step; leave out one of the two"
                )
        return self

    def build_settings(self, on: On, number: int, images: int) -> ExplanationSettings:
        """Build the settings of a job for one distribution, after round `number`."""
        if self.as_published:
            return ExplanationSettings(
                on=on, round=number, images=images, baseline="black", as_published=True
            )
        return ExplanationSettings(
            on=on,
            round=number,
            images=images,
            steps=STEPS if self.steps is None else self.steps,
            baseline=self.baseline or "mean",
        )


class Explain(Analysis):
    """Measures which pixels the answers of runs' models rest on."""

    name = "explain"
    settings = ExplanationSettings
    options = ExplainOptions
    folder = "explanations"
    on_gpu = True

    def jobs(self, runs: Sequence[RunConfig], options: ExplainOptions, context: Context) -> Sequence[Job]:
        """Plan a job for each run and distribution.

        Raises:
            ConfigError: A run lacks the state of the round, there are fewer images or pixels than images or
                steps, or a model has no layer to explain.
            DataError: The images are missing.
        """
        for run in runs:
            _check_model(run, options, context)
        rounds = {run.run_id: _find_round(run, options, context) for run in runs}
        # Counted before any job starts, as a run of many hours must not end at a client with too few images.
        images = _count_images(runs, options, rounds, context.data_dir)
        pairs = (
            (run, options.build_settings(on, rounds[run.run_id], images[run.shared_prefix]))
            for run in runs
            for on in options.on
        )
        return [Job(run, settings, settings.key, settings.round) for run, settings in pairs]

    def compute(self, job: Job, context: Context) -> Artifacts:
        """Explain one distribution of a run.

        Returns:
            The records, an image's shape, and the classes' names, if they have names.
        """
        # Importing torch takes seconds.
        from fedgrid.grids.explain.compute.explained_run import explain_run

        table = explain_run(job.config, context.state(job), context.data_dir, job.settings, context.device)
        dataset = context.dataset(job.config)
        names = {CLASSES: list(dataset.class_names)} if dataset.class_names else {}
        return Artifacts({"shape": list(dataset.inputs.shape), **names}, {RECORDS: encode_parquet(table)})

    def metrics(self, result: JobResult) -> Mapping[str, float]:
        """Compute the means over a run's images by name, as `explanations/members_gap`."""
        return compute_image_means(read_result(result))

    def sections(
        self, results: Sequence[JobResult], missing: Sequence[Job], *, published: bool
    ) -> Iterator[PageSection]:
        """Build a section for each style and number of clients."""
        return build_own_sections(summarise_styles(results, missing), published=published)

    def summary(
        self, results: Sequence[JobResult], missing: Sequence[Job], options: ExplainOptions, grid: GridFolder
    ) -> Summary:
        """Build the tables of scores by number of clients and distribution.

        Args:
            results: Results of the jobs.
            missing: Jobs without results.
            options: What the command line sets.
            grid: Folder of the grid.
        """
        explained = summarise_records([read_result(one) for one in results], len(missing))
        tables = [
            build_own_scores_table(part.explained, on)
            for clients in sorted({one.scenario[1] for one in explained.explained})
            for part in [explained.select_clients(clients)]
            for on in DISTRIBUTIONS
            if any(one.on == on for one in part.explained)
        ]
        sentences = [text for on in DISTRIBUTIONS if (text := format_sentence(explained, on))]
        return Summary(tables, [explained.about, *sentences, *explained.lacking] if tables else [])

    def figures(self, result: JobResult) -> Mapping[str, Figure]:
        """Draw the maps."""
        shown = summarise_records([read_result(result)]).shown
        return {f"maps-{result.job.key}": draw_map_grid(shown)} if shown else {}

    def slot(self, job: Job) -> str:
        """Name the distribution and the style."""
        return f"{job.settings.on} {_find_style(job)}".rstrip()


EXPLAIN = Explain()


def _find_round(run: RunConfig, options: ExplainOptions, context: Context) -> int:
    """Find the round after which a run is explained, and check that its state is stored."""
    number = context.last_round(run) if options.round == LAST else options.round
    # The error is about one of many runs, so that it must name the run.
    with prefix_errors(run.name):
        context.check_state(run, number)
    return number


def _check_model(run: RunConfig, options: ExplainOptions, context: Context) -> None:
    """Check that the model names the layer to explain, and that the image has pixels for the steps."""
    dataset = context.dataset(run)
    dataset.check_kind("explain", ("pixels",), "dataset")
    find_named_layer(run.model, dataset.inputs)
    _, height, width = dataset.inputs.shape
    with prefix_errors("steps"):
        options.build_settings("members", 1, 1).compute_step(height * width)


def _count_images(
    runs: Sequence[RunConfig], options: ExplainOptions, rounds: Mapping[str, int], data_dir: Path
) -> dict[str, int]:
    """Count the images that each client, or as published each cluster, has explained, by shared prefix."""
    if options.as_published:
        return {run.shared_prefix: options.images or PUBLISHED_IMAGES for run in runs}
    # Runs with a shared prefix have the same images, so that one of them stands for all.
    firsts = {run.shared_prefix: run for run in runs}
    counts = {}
    # By data set: the images of one at a time are in memory.
    for shared_prefix, run in sorted(firsts.items(), key=lambda item: item[1].dataset):
        most, reason = min(_find_limits(run, options, rounds[run.run_id], data_dir))
        if options.images is not None and options.images > most:
            raise ConfigError(f"images={options.images}: {reason} in {run.scenario}; choose 1 to {most}")
        counts[shared_prefix] = min(IMAGES, most) if options.images is None else options.images
    return counts


def _find_limits(
    run: RunConfig, options: ExplainOptions, number: int, data_dir: Path
) -> Iterator[tuple[int, str]]:
    """Yield limits of the number of images, each with the reason."""
    # Importing torch takes seconds.
    from fedgrid.engine.runtime.run.prepare import find_partition, prepare_setup

    counts_K = [len(test) for test in find_partition(run, data_dir, number - 1).test_K]
    yield min(counts_K), f"client {counts_K.index(min(counts_K))} has {min(counts_K)} test images"
    if "server" in options.on:
        setup, _ = prepare_setup(run, data_dir)
        yield len(setup.server_set), f"the server has {len(setup.server_set)} test images"


def summarise_styles(results: Sequence[JobResult], missing: Sequence[Job] = ()) -> dict[str, ExplainedGrid]:
    """Summarise results by style, as a report shows them; `missing` are the jobs that have no results yet."""
    by_style: dict[str, list[JobRecords]] = {}
    for result in results:
        by_style.setdefault(_find_style(result.job), []).append(read_result(result))
    return {
        style: summarise_records(read, sum(_find_style(job) == style for job in missing))
        for style, read in by_style.items()
    }


def compute_image_means(read: JobRecords) -> dict[str, float]:
    """Compute the means over a run's images by name, as `explanations/members_gap`."""
    explained = summarise_records([read]).explained
    style = "_as_published" if read.settings.as_published else ""
    metrics = {}
    for score in OWN_SCORES:
        for means in compute_run_means(explained, read.settings.on, score).values():
            for value in means.values():
                name = score.name.replace(" / p", "_by_p").replace(" ", "_")
                metrics[f"explanations/{read.settings.on}_{name}{style}"] = value
    return metrics


def _find_style(job: Job) -> str:
    """Name the style of a job, empty by default."""
    return AS_PUBLISHED if job.settings.as_published else ""
