"""What a command line asks to explain, and the jobs of it; all checks before anything starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from fedgrid.engine.federation.errors import hint
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
from fedgrid.grids.presets.yaml_file import split_at_commas

LAST = "last"


@dataclass(frozen=True)
class ExplainOptions:
    """What a command line asks for; None stands for a default."""

    on: tuple[On, ...]
    images: int | None = None
    steps: int | None = None
    round: str = LAST
    baseline: Baseline | None = None
    as_published: bool = False

    def check(self) -> None:
        """Check that the options fit one another.

        Raises:
            ConfigError: they do not.
        """
        fixed = {"--steps": self.steps, "--baseline": self.baseline}
        for option, value in fixed.items():
            if self.as_published and value is not None:
                raise ConfigError(
                    f"{option} {value} with --as-published, which has a black baseline and "
                    f"{PUBLISHED_PIXELS} pixels a step; leave out one of the two"
                )
        if self.round != LAST and not (self.round.isdecimal() and int(self.round) > 0):
            raise ConfigError(f"--round {self.round}: expected last, or a round as in 40")

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


def distributions(text: str | None) -> tuple[On, ...]:
    """Return the distributions that `members,server` names, in their order; None is all.

    Raises:
        ConfigError: a name is unknown.
    """
    every: tuple[On, ...] = get_args(On)
    names = split_at_commas(text, f"--on {text}") if text is not None else every
    for name in names:
        if name not in every:
            raise ConfigError(f"--on {name}: {hint(name, every)}choose {', '.join(every)}, or several: a,b")
    return tuple(on for on in every if on in names)


def jobs_of(runs: Sequence[RunConfig], asked: ExplainOptions, context: Context) -> list[Job]:
    """Return the jobs of finished runs.

    Raises:
        ConfigError: a run lacks the state that is asked for; more images or steps than there are; or a model
            that does not say what is explained.
        DataError: the images are missing.
    """
    asked.check()
    for run in runs:
        _check_model(run, asked, context)
    rounds = {run.run_id: _round(run, asked, context) for run in runs}
    images = _images(runs, asked, rounds, context.data_dir)
    pairs = (
        (run, asked.settings(on, rounds[run.run_id], images[run.shared_prefix]))
        for run in runs
        for on in asked.on
    )
    return [Job(run, settings, settings.key, settings.round) for run, settings in pairs]


def _round(run: RunConfig, asked: ExplainOptions, context: Context) -> int:
    stored = context.stored(run)
    if not stored:
        raise ConfigError(
            f"{run.name} has no state to explain: it was imported without its models, or they were deleted; "
            "leave it out with --where, or run it again"
        )
    number = context.last_round(run) if asked.round == LAST else int(asked.round)
    if number not in stored:
        raise ConfigError(
            f"--round {asked.round}: {run.name} has no state after round {number}; it keeps "
            f"{' and '.join(map(str, stored))}"
        )
    return number


def _check_model(run: RunConfig, asked: ExplainOptions, context: Context) -> None:
    """Check that the model says what is explained, and the image has pixels for the steps."""
    dataset = context.dataset(run)
    dataset.check_kind("explain", ("pixels",), "dataset")
    named_layer(run.model, dataset.inputs)
    _, height, width = dataset.inputs.shape
    try:
        asked.settings("members", 1, 1).pixels(height * width)
    except ConfigError as error:
        raise ConfigError(f"--steps: {error}") from error


def _images(
    runs: Sequence[RunConfig], asked: ExplainOptions, rounds: Mapping[str, int], data_dir: Path
) -> dict[str, int]:
    """Return how many images each client, or as published each cluster, has explained, by shared prefix."""
    if asked.as_published:
        return {run.shared_prefix: asked.images or PUBLISHED_IMAGES for run in runs}
    firsts = {run.shared_prefix: run for run in runs}
    counts = {}
    # By data set: the images of one at a time are in memory.
    for shared_prefix, run in sorted(firsts.items(), key=lambda item: item[1].dataset):
        most, why = min(_limits(run, asked, rounds[run.run_id], data_dir))
        if asked.images is not None and asked.images > most:
            raise ConfigError(f"--images {asked.images}: {why} in {run.scenario}; choose 1 to {most}")
        counts[shared_prefix] = min(IMAGES, most) if asked.images is None else asked.images
    return counts


def _limits(run: RunConfig, asked: ExplainOptions, number: int, data_dir: Path) -> Iterator[tuple[int, str]]:
    """Yield the number of images to explain, and whose they are."""
    # Importing torch takes seconds.
    from fedgrid.engine.runtime.run.prepare import held_in, prepare

    fewest = min(held_in(run, data_dir, number - 1), key=lambda part: len(part.test))
    yield len(fewest.test), f"client {fewest.client} has {len(fewest.test)} test images"
    if "server" in asked.on:
        setup, _ = prepare(run, data_dir)
        yield len(setup.server_set), f"the server has {len(setup.server_set)} test images"
