"""The OCFL authors' scores of explanations: insertion and deletion areas, a row a cluster.

An imported grid keeps them in `explanations.parquet`. In the archive, statistics of a row are over batches of
some 32 images, not over images; the variance is the population's. A run with one cluster has no images of
others: its file has titles only. Of a centralised training there is a row every tenth epoch. `INDE_avg.csv`,
the mean of each file, is not read: it follows from the rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fedgrid.algorithms.registry import row_in_papers
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.integrity.tables import parquet_bytes, read_table
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.archive.csv_files import CsvTable, whole
from fedgrid.grids.archive.layout import FoundExplanations
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.record_columns import RecordColumn, schema_of
from fedgrid.tracking.explained.scores import Explained

FILE = "explanations.parquet"
CENTRALISED = "centralised"
"""The algorithm of rows that are of a centralised training."""
STATISTICS = {
    "mean": "Mean",
    "median": "Median",
    "variance": "Variance",
    "deviation": "Standard deviation",
    "p05": "5th percentile",
    "p25": "25th percentile",
    "p50": "50th percentile",
    "p75": "75th percentile",
    "p95": "95th percentile",
}
"""Of a score, over the batches of images that a model explained."""
COLUMNS = (
    RecordColumn("dataset", pa.string(), "The data set."),
    RecordColumn("clients", pa.int32(), "Number of clients; null of a centralised training, like the next."),
    RecordColumn("split", pa.string(), "The split."),
    RecordColumn("algorithm", pa.string(), f"Id of the algorithm, or `{CENTRALISED}`."),
    RecordColumn("on", pa.string(), "Whose images: `members`, `others` or `server`; null if centralised."),
    RecordColumn("cluster", pa.string(), "The cluster whose model explained them, as the archive names it."),
    RecordColumn("epoch", pa.int32(), "The epoch of a centralised training; else null."),
    *(
        RecordColumn(f"{score}_{statistic}", pa.float64(), f"{words} of {score} over the batches of images.")
        for score in ("insertion", "deletion")
        for statistic, words in STATISTICS.items()
    ),
)
SCHEMA = schema_of(COLUMNS)
"""A row for each cluster of a run and distribution, or for an epoch of a centralised training."""


def keep(rows: Sequence[Mapping[str, Any]], grid: GridFolder) -> None:
    """Write the rows into the folder of an imported grid.

    Raises:
        RunError: if they cannot be written.
    """
    path = grid.path / FILE
    if rows or path.exists():
        grid.write(FILE, parquet_bytes(pa.Table.from_pylist(list(rows), schema=SCHEMA)))


def load_rows(grid: GridFolder) -> list[dict[str, Any]]:
    """Return the rows of an imported grid, none if it has no such file.

    Raises:
        RunError: the file is damaged.
        ConfigError: it is of another fedgrid.
    """
    try:
        rows: list[dict[str, Any]] = read_table(grid.path / FILE, SCHEMA).to_pylist()
    except FileNotFoundError:
        return []
    except DamagedFile as error:
        raise RunError(f"{error}: import the archive again") from error
    return rows


def published_scores(grid: GridFolder) -> tuple[Explained, ...]:
    """Return the rows of an imported grid that are of its runs, as a report needs them.

    Raises:
        RunError, ConfigError: as `load_rows`.
    """
    return tuple(
        Explained(
            scenario=(row["dataset"], row["clients"], row["split"]),
            algorithm=row["algorithm"],
            published=row_in_papers(row["algorithm"]),
            on=row["on"],
            insertion=row["insertion_mean"],
            deletion=row["deletion_mean"],
        )
        for row in load_rows(grid)
        if row["algorithm"] != CENTRALISED
    )


PREFIXES = {"insertion": "ins", "deletion": "del"}
THEIRS = {
    "mean": "mean",
    "median": "median",
    "variance": "var",
    "deviation": "std",
    **{name: name for name in ("p05", "p25", "p50", "p75", "p95")},
}
"""Our name of a statistic -> the archive's."""


def read_explanations(file: FoundExplanations) -> list[dict[str, Any]]:
    """Return the rows of a file, with the columns of `SCHEMA`.

    Raises:
        DataError: it is malformed; names the file and the line.
    """
    scenario = file.scenario
    key = "iteration" if scenario is None else "cluster"
    sources = {
        f"{score}_{name}": f"{PREFIXES[score]}_{THEIRS[name]}" for score in PREFIXES for name in STATISTICS
    }
    table = CsvTable(file.path, (key, *sources.values()))
    numbers = {
        name: table.numbers(source, least=0, most=1, may_lack=False).tolist()
        for name, source in sources.items()
    }
    common: dict[str, Any] = {"dataset": file.dataset, "algorithm": CENTRALISED}
    if scenario is not None:
        common |= {
            "clients": scenario.num_clients,
            "split": scenario.split,
            "algorithm": file.algorithm,
            "on": file.on,
        }
    return [
        common | _key(file, key, name, line) | {column: values[line] for column, values in numbers.items()}
        for line, name in enumerate(table.texts(key))
    ]


def _key(file: FoundExplanations, key: str, name: str, index: int) -> dict[str, Any]:
    """Return the cluster of a row, or the epoch, counted from 1."""
    if key == "cluster":
        return {"cluster": name}
    return {"epoch": whole(file.path, index + 2, key, name) + 1}
