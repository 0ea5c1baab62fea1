"""The settings of `fedgrid analyse GRID explain`, and its jobs; all checks come before anything starts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import field_validator, model_validator

from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.grids.analyses.analysis import ConfigError, Context, Job, RunConfig
from fedgrid.grids.explain.compute.layers import named_layer
from fedgrid.grids.explain.compute.settings import (
    IMAGES,
    PUBLISHED_IMAGES,
    PUBLISHED_PIXELS,
    STEPS,
    Baseline,
    Explaining,
    On,
)

LAST: Literal["last"] = "last"
DISTRIBUTIONS: tuple[On, ...] = get_args(On)


class ExplainOptions(Section):
    """What of finished runs is explained, and how."""

    on: tuple[On, ...] = DISTRIBUTIONS
    """Whose images: members (the model's own clients'), others, server; or several."""
    images: PositiveInt | None = None
    """Images of each client; None: 24, or all if a client has fewer."""
    steps: PositiveInt | None = None
    """Most steps of a curve; None: 32."""
    round: PositiveInt | Literal["last"] = LAST
    """The state after this round is explained."""
    baseline: Baseline | None = None
    """What removed pixels become: the mean colour of the client's images, black, or blurred; None: mean."""
    as_published: bool = False
    """As the OCFL journal paper did, with its mistakes."""

    @field_validator("on", mode="before")
    @classmethod
    def _one_is_a_list(cls, given: Any) -> Any:
        return [given] if isinstance(given, str) else given

    @field_validator("on")
    @classmethod
    def _in_order(cls, names: tuple[On, ...]) -> tuple[On, ...]:
        return tuple(on for on in DISTRIBUTIONS if on in names)

    @model_validator(mode="after")
    def _published_fixes_baseline_and_steps(self) -> Self:
        for key, value in (("steps", self.steps), ("baseline", self.baseline)):
            if self.as_published and value is not None:
                raise ValueError(
                    f"{key}={value} with as_published=true, which has a black baseline and "
                    f"{PUBLISHED_PIXELS} pixels a step; leave out one of the two"
                )
        return self

    def settings(self, on: On, number: int, images: int) -> Explaining:
        """Return the settings for one distribution, after round `number`."""
        if self.as_published:
            return Explaining(on=on, round=number, images=images, baseline="black", as_published=True)
        return Explaining(
            on=on,
            round=number,
            images=images,
            steps=STEPS if self.steps is None else self.steps,
            baseline=self.baseline or "mean",
        )


def make_jobs(runs: Sequence[RunConfig], options: ExplainOptions, context: Context) -> list[Job]:
    """Return the jobs of finished runs.

    Raises:
        ConfigError: a run lacks the state of the round; more images or steps than there are; or a model
            that does not say what is explained.
        DataError: the images are missing.
    """
    for run in runs:
        _check_model(run, options, context)
    rounds = {run.run_id: _round(run, options, context) for run in runs}
    images = _images(runs, options, rounds, context.data_dir)
    pairs = (
        (run, options.settings(on, rounds[run.run_id], images[run.shared_prefix]))
        for run in runs
        for on in options.on
    )
    return [Job(run, settings, settings.key, settings.round) for run, settings in pairs]


def _round(run: RunConfig, options: ExplainOptions, context: Context) -> int:
    stored = context.stored(run)
    if not stored:
        raise ConfigError(
            f"{run.name} has no state to explain: it was imported without its models, or they were deleted; "
            "leave it out with --where, or run it again"
        )
    number = context.last_round(run) if options.round == LAST else options.round
    if number not in stored:
        raise ConfigError(
            f"round={options.round}: {run.name} has no state after round {number}; it keeps "
            f"{' and '.join(map(str, stored))}"
        )
    return number


def _check_model(run: RunConfig, options: ExplainOptions, context: Context) -> None:
    """Check that the model says what is explained, and the image has pixels for the steps."""
    dataset = context.dataset(run)
    dataset.check_kind("explain", ("pixels",), "dataset")
    named_layer(run.model, dataset.inputs)
    _, height, width = dataset.inputs.shape
    try:
        options.settings("members", 1, 1).pixels(height * width)
    except ConfigError as error:
        raise ConfigError(f"steps: {error}") from error


def _images(
    runs: Sequence[RunConfig], options: ExplainOptions, rounds: Mapping[str, int], data_dir: Path
) -> dict[str, int]:
    """Return how many images each client, or as published each cluster, has explained, by shared prefix."""
    if options.as_published:
        return {run.shared_prefix: options.images or PUBLISHED_IMAGES for run in runs}
    firsts = {run.shared_prefix: run for run in runs}
    counts = {}
    # By data set: the images of one at a time are in memory.
    for shared_prefix, run in sorted(firsts.items(), key=lambda item: item[1].dataset):
        most, why = min(_limits(run, options, rounds[run.run_id], data_dir))
        if options.images is not None and options.images > most:
            raise ConfigError(f"images={options.images}: {why} in {run.scenario}; choose 1 to {most}")
        counts[shared_prefix] = min(IMAGES, most) if options.images is None else options.images
    return counts


def _limits(
    run: RunConfig, options: ExplainOptions, number: int, data_dir: Path
) -> Iterator[tuple[int, str]]:
    """Yield the number of images to explain, and whose they are."""
    # Importing torch takes seconds.
    from fedgrid.engine.runtime.run.prepare import held_in, prepare

    counts_K = [len(test) for test in held_in(run, data_dir, number - 1).test_K]
    yield min(counts_K), f"client {counts_K.index(min(counts_K))} has {min(counts_K)} test images"
    if "server" in options.on:
        setup, _ = prepare(run, data_dir)
        yield len(setup.server_set), f"the server has {len(setup.server_set)} test images"
