"""The records of explained runs as a report needs them.

Shapes: N images, K + 1 points of a curve.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.grids.analyses.analysis import JobResult, Run
from fedgrid.grids.explain.compute.records import CURVES, read_parquet
from fedgrid.grids.explain.compute.settings import PUBLISHED_BATCH, Explaining
from fedgrid.grids.explain.shown.results import Band, ExplainedGrid, ImageKey, ShownMap
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.explained.scores import DISTRIBUTIONS, Explained

RECORDS = ".parquet"
"""The end of the name of a job's records."""
CLASSES = "classes"
"""What a job's mark has beside the records: the names of the classes, of a folder of images."""
SHOWN_CLIENTS = 3
"""Clients of a scenario whose maps are drawn: the first, the last and those between, evenly."""


@dataclass(frozen=True)
class ReadJob:
    """The records of a job."""

    run: Run
    settings: Explaining
    table: pa.Table
    shape: tuple[int, int, int]
    """Channels, height and width of an image."""
    classes: tuple[str, ...] = ()
    """Names of the classes; empty where they have numbers only."""

    def column(self, name: str) -> Array:
        """Return a column of numbers, shape (N,); nulls are NaN."""
        return np.array(
            [nan if value is None else value for value in self.table[name].to_pylist()], np.float64
        )


def read_result(result: JobResult) -> ReadJob:
    """Return the records of a job that is done."""
    table = read_parquet(result.files[RECORDS])
    names = tuple(result.about.get(CLASSES, ()))
    return ReadJob(result.run, result.job.settings, table, tuple(result.about["shape"]), names)


def summarise(read: Sequence[ReadJob], missing: int = 0) -> ExplainedGrid:
    """Return what a report shows of records, all of one style."""
    lacking = [f"{missing} runs and distributions are not explained yet."] if missing else []
    without = [job for job in read if not len(job.table)]
    if without:
        names = ", ".join(dict.fromkeys(job.run.algorithm for job in without))
        lacking.append(f"No images of others, as all clients are in one cluster: {names}.")
    return ExplainedGrid(
        explained=tuple(model for job in read for model in _models(job)),
        bands=tuple(_bands(read)),
        shown=tuple(_shown(read)),
        excess=_excess(read),
        about=_about(read) if read else "",
        lacking=tuple(lacking),
    )


def _about(read: Sequence[ReadJob]) -> str:
    """Return how images were explained, in a sentence; a warning where that differs between algorithms."""
    cells: dict[tuple[Any, ...], set[str]] = {}
    for job in read:
        kind = job.settings.model_copy(update={"round": 1})
        cells.setdefault((job.run.scenario, job.run.seed, job.settings.on), set()).add(kind.key)
    if any(len(kinds) > 1 for kinds in cells.values()):
        return "Algorithms of one scenario were explained with different settings: do not compare them."
    settings = [job.settings for job in read]
    images, rounds = (_range([getattr(one, name) for one in settings]) for name in ("images", "round"))
    if settings[0].as_published:
        return (
            f"As published, after round {rounds}: at most {images} images of each cluster, a map of the "
            "label, curves of the prediction, black pixels, 10 a step; batches of 32 and clusters are equal."
        )
    steps = _range([one.steps for one in settings])
    return (
        f"{images} images of each client, explained by the model that it is served after round {rounds}: map "
        f"and curves of the prediction, at most {steps} steps, absent pixels "
        f"{' or '.join(dict.fromkeys(map(_baseline, settings)))}."
    )


def _range(values: Sequence[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _baseline(kind: Explaining) -> str:
    words = {
        "mean": "of the mean colour of the client's training images",
        "black": "black",
        "blur": "blurred",
    }
    return words[kind.baseline]


def _models(job: ReadJob) -> Iterator[Explained]:
    """Yield the means of each cluster's images; as published, of the means of its batches."""
    run, settings = job.run, job.settings
    published = run.published or ""
    area = {name: job.column(name) for name in CURVES}
    p_N = job.column("p_full")
    excess_N = _excess_of(area)
    gap_N = area["insertion"] - area["deletion"]
    unseen_N = job.column("trained_on") == 0
    right_N = (job.column("label") == job.column("prediction")).astype(float)
    cluster_N = job.column("cluster")
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = {name: area[name] / p_N for name in ("insertion", "deletion")}
    for cluster in np.unique(cluster_N):
        inside = cluster_N == cluster

        def mean(values_N: Array, inside: Array = inside) -> float:
            values = values_N[inside]
            if settings.as_published:
                starts = range(0, len(values), PUBLISHED_BATCH)
                values = np.array([values[start : start + PUBLISHED_BATCH].mean() for start in starts])
            return float(values.mean())

        unseen = inside & unseen_N
        yield Explained(
            scenario=run.scenario,
            algorithm=run.algorithm,
            published=published,
            on=settings.on,
            insertion=mean(area["insertion"]),
            deletion=mean(area["deletion"]),
            seed=run.seed,
            weight=1.0 if settings.as_published else float(inside.sum()),
            excess=mean(excess_N),
            relative_insertion=mean(relative["insertion"]),
            relative_deletion=mean(relative["deletion"]),
            relative_excess=mean(excess_N / p_N),
            p_full=mean(p_N),
            empty=mean(job.column("empty")),
            accuracy=mean(right_N),
            unseen_gap=float(gap_N[unseen].mean()) if unseen.any() else nan,
            unseen=float(unseen.sum()),
        )


def _excess_of(area: Mapping[str, Array]) -> Array:
    by_map, by_chance = (area[f"{order}insertion"] - area[f"{order}deletion"] for order in ("", "random_"))
    return np.asarray(by_map - by_chance)


def _excess(read: Sequence[ReadJob]) -> dict[tuple[str, str], dict[ImageKey, float]]:
    excess: dict[tuple[str, str], dict[ImageKey, float]] = {}
    for job in read:
        areas = _excess_of({name: job.column(name) for name in CURVES})
        values = (areas / job.column("p_full")).tolist()
        of_run = excess.setdefault((job.settings.on, job.run.algorithm), {})
        for row, value in zip(
            job.table.select(["client", "holder", "place"]).to_pylist(), values, strict=True
        ):
            # As published nothing is paired.
            if value == value and not job.settings.as_published:
                holder = -1 if row["holder"] is None else row["holder"]
                of_run[job.run.scenario, job.run.seed, row["client"], holder, row["place"]] = value
    return excess


def _bands(read: Sequence[ReadJob]) -> Iterator[Band]:
    groups: dict[tuple[str, int, str, str], list[ReadJob]] = {}
    for job in read:
        if len(job.table):
            key = job.run.dataset, job.run.clients, job.run.algorithm, job.settings.on
            groups.setdefault(key, []).append(job)
    for (dataset, clients, algorithm, on), members in groups.items():
        curves = {name: _points(members, name) for name in CURVES}
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


def _points(members: Sequence[ReadJob], name: str) -> Array:
    """Return the curves of all images, shape (N, K + 1); without those of diverged models."""
    points = [
        curve for job in members for curve in job.table[f"{name}_curve"].to_pylist() if curve is not None
    ]
    lengths = {len(curve) for curve in points}
    # Runs explained with different steps have no common curve.
    return np.array(points, np.float64) if len(lengths) == 1 else np.zeros((0, 0))


def _shown(read: Sequence[ReadJob]) -> Iterator[ShownMap]:
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
