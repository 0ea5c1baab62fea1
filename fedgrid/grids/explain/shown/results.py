"""Summaries of the records of explained images, as a report shows them.

Shapes: N images, K + 1 points of a curve.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fedgrid.engine.runtime.integrity.tables import read_table
from fedgrid.grids.analyses.analysis import JobResult
from fedgrid.grids.explain.compute.records import CURVES, SCHEMA
from fedgrid.grids.explain.compute.settings import PUBLISHED_BATCH, ExplanationSettings
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.explained.scores import BASELINE, DISTRIBUTIONS, ExplanationMeans
from fedgrid.tracking.scoring.run import Run, Scenario

RECORDS = ".parquet"
"""End of the name of a job's records."""
CLASSES = "classes"
"""Key of the classes' names in a job's mark, for a folder of images."""
SHOWN_CLIENTS = 3
"""Clients of a scenario whose maps are drawn: the first, the last and those between, evenly."""
ImageKey: TypeAlias = tuple[Scenario, int, int, int, int]
"""Scenario, seed, the client whose model explains the image, its holder and its place there."""


@dataclass(frozen=True)
class Band:
    """The curves of one algorithm's images of one data set: means, and the quartiles of the first two."""

    dataset: str
    clients: int
    algorithm: str
    on: str
    images: int
    means: Mapping[str, Array]
    """Name of a curve -> its points, shape (K + 1,)."""
    quartiles: Mapping[str, Array]
    """Name of a curve -> first and third quartile, shape (2, K + 1)."""


@dataclass(frozen=True)
class ShownMap:
    """One image and its map by one algorithm's model."""

    scenario: Scenario
    seed: int
    algorithm: str
    on: str
    client: int
    place: tuple[int, int]
    """Its holder, and its place among that one's images, which identify the image."""
    label: int
    prediction: int
    map_HW: Array
    """The map, uint8."""
    pixels_CHW: Array
    """The image, uint8."""
    is_empty: bool
    classes: tuple[str, ...] = ()
    """Names of the classes; empty if they have numbers only."""

    def find_class_name(self, label: int) -> str:
        """Find the name of a class, its number if it has none."""
        return self.classes[label] if 0 <= label < len(self.classes) else str(label)


@dataclass(frozen=True)
class ExplainedGrid:
    """The explanations of a grid's runs, all by the same settings."""

    explained: tuple[ExplanationMeans, ...]
    """Means of each model."""
    bands: tuple[Band, ...] = ()
    shown: tuple[ShownMap, ...] = ()
    excess: Mapping[tuple[str, str], Mapping[ImageKey, float]] = field(default_factory=dict)
    """(distribution, algorithm) -> each image's excess over a random order, divided by its probability."""
    about: str = ""
    """A sentence on how the images were explained."""
    lacking: tuple[str, ...] = ()
    """Sentences on what is missing."""

    def select_clients(self, clients: int) -> "ExplainedGrid":
        """Select the explanations of scenarios with this number of clients."""
        return ExplainedGrid(
            tuple(one for one in self.explained if one.scenario[1] == clients),
            tuple(one for one in self.bands if one.clients == clients),
            tuple(one for one in self.shown if one.scenario[1] == clients),
            {
                name: {key: value for key, value in images.items() if key[0][1] == clients}
                for name, images in self.excess.items()
            },
            self.about,
            self.lacking,
        )


@dataclass(frozen=True)
class JobRecords:
    """The records of a job."""

    run: Run
    settings: ExplanationSettings
    table: pa.Table
    shape: tuple[int, int, int]
    """Channels, height and width of an image."""
    classes: tuple[str, ...] = ()
    """Names of the classes; empty if they have numbers only."""

    def read_column(self, name: str) -> Array:
        """Convert a column of numbers to an array, shape (N,); nulls are NaN."""
        return np.array(
            [nan if value is None else value for value in self.table[name].to_pylist()], np.float64
        )


def read_result(result: JobResult) -> JobRecords:
    """Read the records of a job that is done.

    Raises:
        DamagedFile: They are not what was written.
    """
    table = read_table(result.files[RECORDS], SCHEMA)
    names = tuple(result.about.get(CLASSES, ()))
    return JobRecords(result.run, result.job.settings, table, tuple(result.about["shape"]), names)


def summarise_records(read: Sequence[JobRecords], missing: int = 0) -> ExplainedGrid:
    """Summarise records, all of one style, as a report shows them.

    Args:
        read: Records of the jobs.
        missing: Number of jobs without records, none by default.
    """
    lacking = [f"{missing} runs and distributions have no explanations."] if missing else []
    # A client whose cluster has all clients has no images of others.
    without = [job for job in read if not len(job.table)]
    if without:
        names = ", ".join(dict.fromkeys(job.run.algorithm for job in without))
        lacking.append(f"No images of others, as all clients are in one cluster: {names}.")
    return ExplainedGrid(
        explained=tuple(model for job in read for model in _summarise_models(job)),
        bands=tuple(_summarise_bands(read)),
        shown=tuple(_select_maps(read)),
        excess=_collect_excess(read),
        about=_describe_settings(read) if read else "",
        lacking=tuple(lacking),
    )


def _describe_settings(read: Sequence[JobRecords]) -> str:
    """Describe how images were explained in a sentence; a warning if that differs between algorithms."""
    cells: dict[tuple[Any, ...], set[str]] = {}
    for job in read:
        kind = job.settings.model_copy(update={"round": 1})
        cells.setdefault((job.run.scenario, job.run.seed, job.settings.on), set()).add(kind.key)
    if any(len(kinds) > 1 for kinds in cells.values()):
        return "Algorithms of one scenario were explained with different settings: do not compare them."
    settings = [job.settings for job in read]
    images, rounds = (_format_range([getattr(one, name) for one in settings]) for name in ("images", "round"))
    if settings[0].as_published:
        return (
            f"As published, after round {rounds}: at most {images} images of each cluster, a map of the "
            "label, curves of the prediction, black pixels, 10 a step; batches of 32 and clusters are equal."
        )
    steps = _format_range([one.steps for one in settings])
    return (
        f"{images} images of each client, explained by the model that it is served after round {rounds}: map "
        f"and curves of the prediction, at most {steps} steps, absent pixels "
        f"{' or '.join(dict.fromkeys(map(_describe_baseline, settings)))}."
    )


def _format_range(values: Sequence[int]) -> str:
    """Format the least and the greatest of numbers, or the one that all have."""
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _describe_baseline(kind: ExplanationSettings) -> str:
    """Describe absent pixels."""
    words = {
        "mean": "of the mean colour of the client's training images",
        "black": "black",
        "blur": "blurred",
    }
    return words[kind.baseline]


def _summarise_models(job: JobRecords) -> Iterator[ExplanationMeans]:
    """Yield the means of each cluster's images; as published, of the means of its batches."""
    run, settings = job.run, job.settings
    published = run.published or ""
    area = {name: job.read_column(name) for name in CURVES}
    # Both curves grow with the model's confidence; dividing by it, image by image, takes that out.
    p_N = job.read_column("p_full")
    excess_N = _compute_excess(area)
    gap_N = area["insertion"] - area["deletion"]
    unseen_N = job.read_column("trained_on") == 0
    right_N = (job.read_column("label") == job.read_column("prediction")).astype(float)
    cluster_N = job.read_column("cluster")
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = {name: area[name] / p_N for name in ("insertion", "deletion")}
    for cluster in np.unique(cluster_N):
        inside = cluster_N == cluster

        def compute_mean(values_N: Array, inside: Array = inside) -> float:
            """Compute the mean over a cluster's images."""
            values = values_N[inside]
            # As in the paper, the last batch counts as much as the others, although it may have fewer images.
            if settings.as_published:
                starts = range(0, len(values), PUBLISHED_BATCH)
                values = np.array([values[start : start + PUBLISHED_BATCH].mean() for start in starts])
            return float(values.mean())

        unseen = inside & unseen_N
        yield ExplanationMeans(
            scenario=run.scenario,
            algorithm=run.algorithm,
            published=published,
            on=settings.on,
            insertion=compute_mean(area["insertion"]),
            deletion=compute_mean(area["deletion"]),
            seed=run.seed,
            weight=1.0 if settings.as_published else float(inside.sum()),
            excess=compute_mean(excess_N),
            relative_insertion=compute_mean(relative["insertion"]),
            relative_deletion=compute_mean(relative["deletion"]),
            relative_excess=compute_mean(excess_N / p_N),
            p_full=compute_mean(p_N),
            empty=compute_mean(job.read_column("empty")),
            accuracy=compute_mean(right_N),
            unseen_gap=float(gap_N[unseen].mean()) if unseen.any() else nan,
            unseen=float(unseen.sum()),
        )


def _compute_excess(area: Mapping[str, Array]) -> Array:
    """Compute the gap between insertion and deletion, less that of a random order, shape (N,)."""
    by_map, by_chance = (area[f"{order}insertion"] - area[f"{order}deletion"] for order in ("", "random_"))
    return np.asarray(by_map - by_chance)


def _collect_excess(read: Sequence[JobRecords]) -> dict[tuple[str, str], dict[ImageKey, float]]:
    """Collect each image's excess, divided by its probability, by distribution and algorithm."""
    excess: dict[tuple[str, str], dict[ImageKey, float]] = {}
    for job in read:
        areas = _compute_excess({name: job.read_column(name) for name in CURVES})
        values = (areas / job.read_column("p_full")).tolist()
        run_excess = excess.setdefault((job.settings.on, job.run.algorithm), {})
        for row, value in zip(
            job.table.select(["client", "holder", "place"]).to_pylist(), values, strict=True
        ):
            # As published nothing is paired, so there is no image to compare. NaN is a diverged model's.
            if value == value and not job.settings.as_published:
                holder = -1 if row["holder"] is None else row["holder"]
                run_excess[job.run.scenario, job.run.seed, row["client"], holder, row["place"]] = value
    return excess


def _summarise_bands(read: Sequence[JobRecords]) -> Iterator[Band]:
    """Yield the mean curves of each data set, number of clients, algorithm and distribution."""
    groups: dict[tuple[str, int, str, str], list[JobRecords]] = {}
    for job in read:
        if len(job.table):
            key = job.run.dataset, job.run.clients, job.run.algorithm, job.settings.on
            groups.setdefault(key, []).append(job)
    for (dataset, clients, algorithm, on), members in groups.items():
        curves = {name: _collect_points(members, name) for name in CURVES}
        if not len(curves["insertion"]):
            continue
        yield Band(
            dataset,
            clients,
            algorithm,
            on,
            len(curves["insertion"]),
            {name: values.mean(axis=0) for name, values in curves.items()},
            {name: np.quantile(curves[name], (0.25, 0.75), axis=0) for name in ("insertion", "deletion")},
        )


def _collect_points(members: Sequence[JobRecords], name: str) -> Array:
    """Collect the curves of all images, shape (N, K + 1), without those of diverged models."""
    points = [
        curve for job in members for curve in job.table[f"{name}_curve"].to_pylist() if curve is not None
    ]
    lengths = {len(curve) for curve in points}
    # Runs explained with different steps have no common curve.
    return np.array(points, np.float64) if len(lengths) == 1 else np.zeros((0, 0))


def _select_maps(read: Sequence[JobRecords]) -> Iterator[ShownMap]:
    """Yield maps of the first scenario and seed of each data set, number of clients and distribution."""
    firsts: dict[tuple[str, int, str], tuple[Any, int]] = {}
    # As published each algorithm has images of its own.
    plain = [job for job in read if not job.settings.as_published]
    order = sorted(plain, key=lambda job: list(DISTRIBUTIONS).index(job.settings.on))
    for job in order:
        place = job.run.dataset, job.run.clients, job.settings.on
        which = job.run.scenario, job.run.seed
        if firsts.setdefault(place, which) != which:
            continue
        clients = np.linspace(0, job.run.clients - 1, SHOWN_CLIENTS).round().astype(int).tolist()
        names = ["client", "holder", "place", "label", "prediction", "empty", "map", "pixels"]
        for row in job.table.select(names).to_pylist():
            if row["map"] is None or row["client"] not in clients:
                continue
            holder = -1 if row["holder"] is None else row["holder"]
            yield ShownMap(
                job.run.scenario,
                job.run.seed,
                job.run.algorithm,
                job.settings.on,
                row["client"],
                (holder, row["place"]),
                row["label"],
                row["prediction"],
                np.frombuffer(row["map"], np.uint8).reshape(job.shape[1:]),
                np.frombuffer(row["pixels"], np.uint8).reshape(job.shape),
                row["empty"],
                job.classes,
            )


@dataclass(frozen=True)
class PairedComparison:
    """An algorithm's excess / p minus fedavg's, of images that both explain with one client's model."""

    algorithm: str
    difference: float
    better: float
    """Share of the images on which it is higher; ties count half."""
    images: int


def pair_images(grid: ExplainedGrid, on: str) -> list[PairedComparison]:
    """Compare each algorithm with fedavg, image by image; empty without fedavg."""
    against = grid.excess.get((on, BASELINE), {})
    comparisons = []
    for (where, algorithm), images in grid.excess.items():
        both = [key for key in images if key in against]
        if where != on or algorithm == BASELINE or not both:
            continue
        differences = np.array([images[key] - against[key] for key in both])
        better = float(np.mean((differences > 0) + 0.5 * (differences == 0)))
        comparisons.append(PairedComparison(algorithm, float(differences.mean()), better, len(both)))
    return comparisons


def format_sentence(grid: ExplainedGrid, on: str) -> str:
    """Describe in a sentence whether clustering helps once confidence is taken out; empty without fedavg."""
    comparisons = pair_images(grid, on)
    if not comparisons:
        return ""
    better, worse = ([one for one in comparisons if sign * one.difference > 0] for sign in (1, -1))
    words = [
        f"{len(chosen)} of {len(comparisons)} algorithms {verb}: {_list_gains(chosen)}"
        for chosen, verb in ((better, "gain"), (worse, "lose"))
        if chosen
    ]
    counts = [one.images for one in comparisons]
    images = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"On {DISTRIBUTIONS[on]}, once confidence is taken out (excess over a random order, divided by p, "
        f"image by image against {BASELINE}, {images} images): {'; '.join(words) or 'no difference'}."
    )


def _list_gains(comparisons: Sequence[PairedComparison]) -> str:
    """Format the differences of algorithms, the largest first."""
    ranked = sorted(comparisons, key=lambda one: -abs(one.difference))
    first = f"{ranked[0].algorithm} {ranked[0].difference:+.3f} (better on {ranked[0].better:.0%})"
    return ", ".join(
        [first, *(f"{one.algorithm} {one.difference:+.3f} ({one.better:.0%})" for one in ranked[1:])]
    )
