"""The archive's scores of explanations: insertion and deletion areas, a row a cluster.

Statistics of a row are over batches of some 32 images, not over images; the variance is the population's. A
run with one cluster has no images of others: its file has titles only. Of a centralised training there is a
row every tenth epoch. `INDE_avg.csv`, the mean of each file, is not read: it follows from the rows.
"""

from typing import Any

from fedgrid.grids.archive.csv_files import Table, whole
from fedgrid.grids.archive.explanation_records import CENTRALISED, STATISTICS
from fedgrid.grids.archive.layout import FoundExplanations

PREFIXES = {"insertion": "ins", "deletion": "del"}
COLUMNS = {
    "mean": "mean",
    "median": "median",
    "variance": "var",
    "deviation": "std",
    **{name: name for name in ("p05", "p25", "p50", "p75", "p95")},
}
"""Our name of a statistic -> the archive's."""


def read_explanations(found: FoundExplanations) -> list[dict[str, Any]]:
    """Return the rows of a file, with the columns of `explanation_records.SCHEMA`.

    Raises:
        DataError: it is malformed; names the file and the line.
    """
    scenario = found.scenario
    key = "iteration" if scenario is None else "cluster"
    sources = {
        f"{score}_{name}": f"{PREFIXES[score]}_{COLUMNS[name]}" for score in PREFIXES for name in STATISTICS
    }
    table = Table(found.path, (key, *sources.values()))
    numbers = {
        name: table.numbers(source, least=0, most=1, may_lack=False).tolist()
        for name, source in sources.items()
    }
    common: dict[str, Any] = {"dataset": found.dataset, "algorithm": CENTRALISED}
    if scenario is not None:
        common |= {
            "clients": scenario.num_clients,
            "split": scenario.split,
            "algorithm": found.algorithm,
            "on": found.on,
        }
    return [
        common | _key(found, key, name, line) | {column: values[line] for column, values in numbers.items()}
        for line, name in enumerate(table.texts(key))
    ]


def _key(found: FoundExplanations, key: str, name: str, index: int) -> dict[str, Any]:
    """Return the cluster of a row, or the epoch, counted from 1."""
    if key == "cluster":
        return {"cluster": name}
    return {"epoch": whole(found.path, index + 2, key, name) + 1}
