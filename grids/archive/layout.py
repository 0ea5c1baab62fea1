"""The folders of the authors' archive and their spelling. No other module knows these.

Source: the journal archive of the OCFL papers (ODFL_Archive). A run of a scenario is in
`experiments/DATASET/OVERLAP/BALANCE/N/ALGORITHM_DATASET_OVERLAP_BALANCE_N/results`, its clients' images in
`datasets/DATASET/OVERLAP/BALANCE/N/DATASET_N_dataset_blueprint.csv`. Below `temperature_experiments` a
scenario's one run, without clustering, is somewhere below `DATASET/OVERLAP/BALANCE/N`. The centralised run of
a data set, `experiments/DATASET/centralised_test`, has no clients and is skipped.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.engine.errors import ConfigError, DataError, hint
from fedgrid.engine.partition.scenarios import PUBLISHED_DATASETS, SCENARIOS, Scenario

EXPERIMENTS, TEMPERATURES, DATASETS = "experiments", "temperature_experiments", "datasets"
RESULTS = "results"
CENTRALISED = "centralised_test"
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
    "baseline": "bnc",
    "sattler": "sattler-as-published",
    "briggs": "briggs-as-published",
    "kmeans": "ocfl-kmeans",
    "affinity": "ocfl-affinity-as-published",
    "meanshift": "ocfl-meanshift",
    "HDBSCAN": "ocfl-hdbscan-as-published",
}
NEVER_CLUSTERS = "bnc"


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


def experiments(archive: Path) -> list[Found]:
    """Return the runs of the tables, ordered by scenario and algorithm; none without that folder.

    Raises:
        DataError: a folder has an unknown name.
    """
    found = []
    for names, folder in _scenarios(archive / EXPERIMENTS):
        for run in _folders(folder):
            algorithm, rest = run.name.partition("_")[::2]
            if rest != "_".join(names):
                expected = f"ALGORITHM_{'_'.join(names)}"
                raise DataError(f"{run}: a folder named '{run.name}' among runs; expected {expected}")
            name = _known("algorithm", algorithm, ALGORITHMS, run)
            found.append(_found(archive, names, str(name), run / RESULTS))
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


def _found(
    archive: Path, names: tuple[str, ...], algorithm: str, folder: Path, *, measures_temperature: bool = False
) -> Found:
    values = [known[name] for known, name in zip(NAMES, names, strict=True)]
    blueprint = archive.joinpath(DATASETS, *names, f"{names[0]}_{names[3]}_dataset_blueprint.csv")
    return Found(Scenario(*values), algorithm, folder, blueprint, measures_temperature)


def _scenarios(top: Path, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield the names of the folders from `top` down to a scenario, and the last of them."""
    if len(names) == len(NAMES):
        yield names, top
    elif top.is_dir():
        for folder in _folders(top):
            if folder.name == CENTRALISED:
                continue
            _known(KINDS[len(names)], folder.name, NAMES[len(names)], folder)
            yield from _scenarios(folder, (*names, folder.name))


def _folders(top: Path) -> list[Path]:
    return sorted(path for path in top.iterdir() if path.is_dir() and not path.name.startswith("."))


def _known(kind: str, name: str, known: Mapping[str, Any], folder: Path) -> Any:
    if name not in known:
        raise DataError(f"{folder}: unknown {kind} '{name}'; {hint(name, known)}known: {', '.join(known)}")
    return known[name]
