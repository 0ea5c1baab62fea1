"""The folders of the authors' archive and their spelling. No other module knows these.

Source: the journal archive of the OCFL papers (ODFL_Archive). A run of a scenario is in
`experiments/DATASET/OVERLAP/BALANCE/N/ALGORITHM_DATASET_OVERLAP_BALANCE_N/results`, its clients' images in
`datasets/DATASET/OVERLAP/BALANCE/N/DATASET_N_dataset_blueprint.csv`. Below `temperature_experiments` a
scenario's one run, without clustering, is somewhere below `DATASET/OVERLAP/BALANCE/N`. Centralised trainings
of a data set are in and below `experiments/DATASET/centralised_test`. Among all these there may be folders of
other things, which hold no run. Scores of explanations are in
`explanations/EXPERIMENT/DATASET/DATASET_OVERLAP_BALANCE_N_ALGORITHM.csv`, those of centralised models in
`experiments/DATASET/centralised_test/explanations/DATASET_explanations.csv`.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import contains
from pathlib import Path
from typing import Any

from fedgrid.engine.errors import ConfigError, DataError, hint
from fedgrid.engine.partition.scenarios import PUBLISHED_DATASETS, SCENARIOS, Scenario

EXPERIMENTS, TEMPERATURES, DATASETS = "experiments", "temperature_experiments", "datasets"
RESULTS = "results"
CENTRALISED = "centralised_test"
LOSS, VALIDATION, FINAL = "training_loss.csv", "validation_results.csv", "final_test.csv"
"""The files of a centralised training, beside `SETUP`."""
SETUP = "config.json"
MAPPING = "cluster_id_mapping.csv"
TEMPERATURE = "clusters_temperature.csv"

NAMES: tuple[Mapping[str, Any], ...] = (
    {name.upper(): name for name in PUBLISHED_DATASETS},
    {"nonoverlaping": "nonoverlapping", "overlaping": "overlapping"},
    {"balanced": "balanced", "imbalanced": "imbalanced"},
    {"15": 15, "30": 30},
)
"""Names of the folders, from the top: data set, overlap, balance, number of clients."""
KINDS = ("data set", "overlap", "balance", "number of clients")
ALGORITHMS = {
    "baseline": "fedavg",
    "sattler": "sattler-as-published",
    "briggs": "briggs-as-published",
    "kmeans": "ocfl-kmeans",
    "affinity": "ocfl-affinity-as-published",
    "meanshift": "ocfl-meanshift",
    "HDBSCAN": "ocfl-hdbscan-as-published",
}
NEVER_CLUSTERS = "fedavg"
EXPLANATIONS = "explanations"
DISTRIBUTIONS = {"experiment1A": "members", "experiment1B": "others", "experiment1C": "server"}
"""Folder of an experiment -> whose images were explained."""


@dataclass(frozen=True)
class Found:
    """A run of the archive whose files have not been read yet."""

    scenario: Scenario
    algorithm: str
    folder: Path
    """The folder with its csv files."""
    blueprint: Path
    """The file with the number of images of each client; may be absent."""
    measures_temperature: bool
    """Whether it is one of the runs without clustering that were made for their temperature."""


@dataclass(frozen=True)
class FoundTraining:
    """A centralised training of the archive whose files have not been read yet."""

    dataset: str
    folder: Path
    name: str
    """The folder, from that of the data set on."""


@dataclass(frozen=True)
class FoundExplanations:
    """A file with scores of explanations that has not been read yet."""

    path: Path
    dataset: str
    scenario: Scenario | None = None
    """None for a centralised training, like `algorithm` and `on`."""
    algorithm: str | None = None
    on: str | None = None
    """One of the values of `DISTRIBUTIONS`."""


def experiments(archive: Path) -> list[Found]:
    """Return the runs of the tables, ordered by scenario and algorithm; none without that folder.

    Raises:
        DataError: a folder that holds a run has an unknown name.
    """
    found = []
    for names, folder in _scenarios(archive / EXPERIMENTS):
        for run in _folders(folder):
            algorithm = _algorithm_of(run, names)
            if algorithm is not None:
                found.append(_found(archive, names, algorithm, run / RESULTS))
    order = list(product(SCENARIOS, ALGORITHMS.values()))
    return sorted(found, key=lambda run: order.index((run.scenario.name, run.algorithm)))


def temperatures(archive: Path) -> list[Found]:
    """Return the runs made for their temperature, ordered by scenario; none without that folder.

    Raises:
        DataError: a folder has a name that is not known, or a scenario has several runs.
    """
    found: dict[str, Found] = {}
    for names, folder in _scenarios(archive / TEMPERATURES):
        for place in sorted({path.parent for name in (MAPPING, TEMPERATURE) for path in folder.rglob(name)}):
            run = _found(archive, names, NEVER_CLUSTERS, place, measures_temperature=True)
            if run.scenario.name in found:
                first = found[run.scenario.name].folder
                raise DataError(f"{place}: a second run of its scenario; expected only {first}")
            found[run.scenario.name] = run
    return [found[name] for name in SCENARIOS if name in found]


def trainings(archive: Path) -> list[FoundTraining]:
    """Return the centralised trainings, ordered by data set; none without such folders."""
    found = []
    for name, dataset in NAMES[0].items():
        top = archive / EXPERIMENTS / name
        inside = (path.parent for file in (LOSS, VALIDATION, FINAL) for path in top.rglob(file))
        folders = sorted({path for path in inside if path.relative_to(top).parts[:1] == (CENTRALISED,)})
        found += [FoundTraining(dataset, path, path.relative_to(top).as_posix()) for path in folders]
    return found


def skipped(archive: Path) -> list[Path]:
    """Return the folders among those of scenarios and runs that hold neither runs nor trainings."""
    strays = [
        folder
        for top in (EXPERIMENTS, TEMPERATURES)
        for names, folder in _places(archive / top)
        if names is None
    ]
    for names, scenario in _scenarios(archive / EXPERIMENTS):
        strays += [folder for folder in _folders(scenario) if _algorithm_of(folder, names) is None]
    used = [training.folder for training in trainings(archive)]
    return [stray for stray in strays if not any(folder.is_relative_to(stray) for folder in used)]


def explanations(archive: Path) -> tuple[list[FoundExplanations], list[Path]]:
    """Return the files with scores of explanations, and what else is in their folders.

    Files are ordered by distribution, scenario and algorithm; centralised trainings come last.
    """
    found: dict[tuple[int, int, int], FoundExplanations] = {}
    strays: list[Path] = []
    top = archive / EXPLANATIONS
    order = (list(DISTRIBUTIONS), list(SCENARIOS), list(ALGORITHMS))
    for path in _leaves(top, [DISTRIBUTIONS, NAMES[0]]) if top.is_dir() else ():
        names, algorithm = path.stem.rpartition("_")[::2]
        parts = names.split("_")
        is_known = len(parts) == len(NAMES) and all(map(contains, NAMES, parts)) and algorithm in ALGORITHMS
        if path.suffix != ".csv" or not is_known or parts[0] != path.parent.name:
            strays.append(path)
            continue
        scenario = _scenario(*(known[name] for known, name in zip(NAMES, parts, strict=True)))
        experiment = path.parent.parent.name
        places = zip(order, (experiment, scenario.name, algorithm), strict=True)
        one, two, three = (known.index(name) for known, name in places)
        found[one, two, three] = FoundExplanations(
            path, scenario.dataset, scenario, ALGORITHMS[algorithm], DISTRIBUTIONS[experiment]
        )
    centralised = (
        FoundExplanations(
            archive / EXPERIMENTS / name / CENTRALISED / EXPLANATIONS / f"{name}_explanations.csv", dataset
        )
        for name, dataset in NAMES[0].items()
    )
    return [
        *(found[key] for key in sorted(found)),
        *(each for each in centralised if each.path.exists()),
    ], strays


def _leaves(top: Path, levels: Sequence[Container[str]]) -> Iterator[Path]:
    """Yield what is below folders of known names, and whatever else stands beside these."""
    for path in sorted(top.iterdir()):
        if levels and path.is_dir() and path.name in levels[0]:
            yield from _leaves(path, levels[1:])
        elif not path.name.startswith("."):
            yield path


def check(archive: Path) -> None:
    """Check that a folder is the archive.

    Raises:
        ConfigError: it has none of the archive's folders.
    """
    if not any((archive / name).is_dir() for name in (EXPERIMENTS, TEMPERATURES)):
        raise ConfigError(
            f"{archive} has neither {EXPERIMENTS}/ nor {TEMPERATURES}/; name the folder of the authors' "
            "archive that holds them"
        )


def _scenario(dataset: str, overlap: str, balance: str, num_clients: int) -> Scenario:
    return Scenario(dataset, f"{overlap}-{balance}", num_clients)


def _found(
    archive: Path, names: tuple[str, ...], algorithm: str, folder: Path, *, measures_temperature: bool = False
) -> Found:
    values = [known[name] for known, name in zip(NAMES, names, strict=True)]
    blueprint = archive.joinpath(DATASETS, *names, f"{names[0]}_{names[3]}_dataset_blueprint.csv")
    return Found(_scenario(*values), algorithm, folder, blueprint, measures_temperature)


def _algorithm_of(run: Path, names: tuple[str, ...]) -> str | None:
    """Return the algorithm of a run's folder, None if it holds no run.

    Raises:
        DataError: it does, but its name is not a run's.
    """
    algorithm, rest = run.name.partition("_")[::2]
    if rest == "_".join(names) and algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    if not _holds_runs(run):
        return None
    if rest == "_".join(names):
        raise _unknown("algorithm", algorithm, ALGORITHMS, run)
    raise DataError(f"{run}: a run in a folder named '{run.name}'; expected ALGORITHM_{'_'.join(names)}")


def _scenarios(top: Path) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield the names of the folders from `top` down to a scenario, and the last of them."""
    return ((names, folder) for names, folder in _places(top) if names is not None)


def _places(top: Path, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...] | None, Path]]:
    """Yield what `_scenarios` does, and None with each folder among those that holds no run.

    Raises:
        DataError: a folder that holds a run has an unknown name.
    """
    if len(names) == len(NAMES):
        yield names, top
        return
    kind, known = KINDS[len(names)], NAMES[len(names)]
    for folder in _folders(top) if top.is_dir() else ():
        if folder.name in known:
            yield from _places(folder, (*names, folder.name))
        elif _holds_runs(folder):
            raise _unknown(kind, folder.name, known, folder)
        else:
            yield None, folder


def _holds_runs(folder: Path) -> bool:
    return any(True for name in (MAPPING, TEMPERATURE) for _ in folder.rglob(name))


def _folders(top: Path) -> list[Path]:
    return sorted(path for path in top.iterdir() if path.is_dir() and not path.name.startswith("."))


def _unknown(kind: str, name: str, known: Mapping[str, Any], folder: Path) -> DataError:
    return DataError(f"{folder}: unknown {kind} '{name}'; {hint(name, known)}known: {', '.join(known)}")
