"""The folders of the authors' archive and their spelling, which no other module uses.

Source: the journal archive of the OCFL papers (ODFL_Archive). A run of a scenario is in
`experiments/DATASET/OVERLAP/BALANCE/N/ALGORITHM_DATASET_OVERLAP_BALANCE_N/results`, its clients' images in
`datasets/DATASET/OVERLAP/BALANCE/N/DATASET_N_dataset_blueprint.csv`. Below `temperature_experiments` a
scenario's one run, without clustering, is somewhere below `DATASET/OVERLAP/BALANCE/N`. Centralised trainings
of a data set are in and below `experiments/DATASET/centralised_test`. Among all these there may be folders of
other things, which hold no run. Scores of explanations are in
`explanations/EXPERIMENT/DATASET/DATASET_OVERLAP_BALANCE_N_ALGORITHM.csv`, those of centralised models in
`experiments/DATASET/centralised_test/explanations/DATASET_explanations.csv`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_DATASETS, SCENARIOS, Scenario
from fedgrid.regular_files import check_folder

EXPERIMENTS, TEMPERATURES, DATASETS = "experiments", "temperature_experiments", "datasets"
RESULTS = "results"
CENTRALISED = "centralised_test"
LOSS, VALIDATION, FINAL = "training_loss.csv", "validation_results.csv", "final_test.csv"
"""Files of a centralised training, in addition to `SETUP`."""
SETUP = "config.json"
MAPPING = "cluster_id_mapping.csv"
TEMPERATURE = "clusters_temperature.csv"

NAMES: tuple[Mapping[str, Any], ...] = (
    {name.upper(): name for name in PUBLISHED_DATASETS},
    {"nonoverlaping": "nonoverlapping", "overlaping": "overlapping"},
    {"balanced": "balanced", "imbalanced": "imbalanced"},
    {"15": 15, "30": 30},
)
"""Names of the folders from the top -> their meanings: data set, overlap, balance, number of clients. The
spelling is the authors'."""
ALGORITHMS = {
    "baseline": "fedavg",
    "sattler": "sattler-as-published",
    "briggs": "briggs-as-published",
    "kmeans": "ocfl-kmeans",
    "affinity": "ocfl-affinity-as-published",
    "meanshift": "ocfl-meanshift",
    "HDBSCAN": "ocfl-hdbscan-as-published",
}
"""Name of an algorithm in the archive -> its id."""
NEVER_CLUSTERS = "fedavg"
EXPLANATIONS = "explanations"
ARCHIVE_FOLDERS = re.compile(f"{EXPERIMENTS}|{TEMPERATURES}|{DATASETS}|{EXPLANATIONS}")
"""Pattern of the archive's top folders; no others are read."""
DISTRIBUTIONS = {"experiment1A": "members", "experiment1B": "others", "experiment1C": "server"}
"""Folder of an experiment -> whose images were explained."""


@dataclass(frozen=True)
class RunFiles:
    """A run of the archive whose files have not been read yet."""

    scenario: Scenario
    algorithm: str
    folder: Path
    """Folder with its CSV files."""
    blueprint: Path
    """File with the number of images of each client; may be absent."""
    measures_temperature: bool
    """Whether it is one of the runs without clustering that were made for their temperature."""


@dataclass(frozen=True)
class TrainingFiles:
    """A centralised training of the archive whose files have not been read yet."""

    dataset: str
    folder: Path
    name: str
    """Path of its folder from that of the data set on."""


@dataclass(frozen=True)
class ExplanationFile:
    """A file with scores of explanations that has not been read yet."""

    path: Path
    dataset: str
    scenario: Scenario | None = None
    """None for a centralised training, like `algorithm` and `on`."""
    algorithm: str | None = None
    on: str | None = None
    """One of the values of `DISTRIBUTIONS`."""


def find_runs(archive: Path) -> list[RunFiles]:
    """Find the runs of the tables, ordered by scenario and algorithm; none without that folder."""
    runs = [
        _build_run(archive, names, ours, folder / f"{theirs}_{'_'.join(names)}" / RESULTS)
        for names, folder in _list_scenarios(archive / EXPERIMENTS)
        for theirs, ours in ALGORITHMS.items()
        if (folder / f"{theirs}_{'_'.join(names)}").is_dir()
    ]
    order = list(product(SCENARIOS, ALGORITHMS.values()))
    return sorted(runs, key=lambda run: order.index((run.scenario.name, run.algorithm)))


def find_temperature_runs(archive: Path) -> list[RunFiles]:
    """Find the runs made for their temperature, ordered by scenario; none without that folder."""
    runs: dict[str, RunFiles] = {}
    for names, folder in _list_scenarios(archive / TEMPERATURES):
        # Sorted, as the order of a file system differs between machines; of several folders the last one
        # counts.
        for place in sorted({path.parent for name in (MAPPING, TEMPERATURE) for path in folder.rglob(name)}):
            run = _build_run(archive, names, NEVER_CLUSTERS, place, measures_temperature=True)
            runs[run.scenario.name] = run
    return [runs[name] for name in SCENARIOS if name in runs]


def find_trainings(archive: Path) -> list[TrainingFiles]:
    """Find the centralised trainings, ordered by data set; none without such folders."""
    trainings = []
    for name, dataset in NAMES[0].items():
        top = archive / EXPERIMENTS / name
        inside = (path.parent for file in (LOSS, VALIDATION, FINAL) for path in top.rglob(file))
        # `rglob` also finds files of these names outside the centralised trainings.
        folders = sorted({path for path in inside if path.relative_to(top).parts[:1] == (CENTRALISED,)})
        trainings += [TrainingFiles(dataset, path, path.relative_to(top).as_posix()) for path in folders]
    return trainings


def find_explanations(archive: Path) -> list[ExplanationFile]:
    """Find the files with scores of explanations.

    They are ordered by distribution, scenario and algorithm; centralised trainings come last.
    """
    top = archive / EXPLANATIONS
    files = [
        ExplanationFile(path, scenario.dataset, scenario, ours, on)
        for experiment, on in DISTRIBUTIONS.items()
        for names, scenario in sorted(
            ((names, _parse_scenario(names)) for names in product(*NAMES)),
            key=lambda pair: list(SCENARIOS).index(pair[1].name),
        )
        for theirs, ours in ALGORITHMS.items()
        if (path := top / experiment / names[0] / f"{'_'.join(names)}_{theirs}.csv").exists()
    ]
    centralised = (
        ExplanationFile(
            archive / EXPERIMENTS / name / CENTRALISED / EXPLANATIONS / f"{name}_explanations.csv", dataset
        )
        for name, dataset in NAMES[0].items()
    )
    return [*files, *(file for file in centralised if file.path.exists())]


def check_archive(archive: Path) -> None:
    """Check that a folder is the archive, without links out of it and without pipes or devices.

    Raises:
        ConfigError: It has none of the archive's folders, or has a link, a pipe or a device.
    """
    if not any((archive / name).is_dir() for name in (EXPERIMENTS, TEMPERATURES)):
        raise ConfigError(
            f"{archive} has neither {EXPERIMENTS}/ nor {TEMPERATURES}/; name a bundle (FILE.zip), or the "
            "folder of the authors' archive that holds them"
        )
    try:
        check_folder(archive, ARCHIVE_FOLDERS)
    except OSError as error:
        raise ConfigError(
            f"{error}; expected files and folders as the authors' archive has them: unpack it again"
        ) from error


def _parse_scenario(names: tuple[str, ...]) -> Scenario:
    """Build the scenario of the names of its folders."""
    dataset, overlap, balance, clients = (meanings[name] for meanings, name in zip(NAMES, names, strict=True))
    return Scenario(dataset, f"{overlap}-{balance}", clients)


def _build_run(
    archive: Path, names: tuple[str, ...], algorithm: str, folder: Path, *, measures_temperature: bool = False
) -> RunFiles:
    """Build the run in a folder of the archive."""
    blueprint = archive.joinpath(DATASETS, *names, f"{names[0]}_{names[3]}_dataset_blueprint.csv")
    return RunFiles(_parse_scenario(names), algorithm, folder, blueprint, measures_temperature)


def _list_scenarios(top: Path) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield the names of the folders from `top` down to a scenario, and the last of them."""
    # Folders of other names are no scenarios, and are passed over.
    for names in product(*NAMES):
        if (folder := top.joinpath(*names)).is_dir():
            yield names, folder
