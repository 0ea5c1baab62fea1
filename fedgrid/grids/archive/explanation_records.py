"""The OCFL authors' scores of explanations: insertion and deletion areas, a row for each cluster.

An imported grid has them in `explanations.parquet`. In the archive, statistics of a row are over batches of
some 32 images, not over images; the variance is the population's. A run with one cluster has no images of
others: its file has titles only. For a centralised training there is a row every tenth epoch. `INDE_avg.csv`,
the mean of each file, is not read: it follows from the rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fedgrid.algorithms.registry import find_paper_row
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.integrity.tables import encode_parquet, read_table
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.archive.csv_files import CsvTable, parse_count
from fedgrid.grids.archive.layout import ExplanationFile
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.record_columns import RecordColumn, build_schema
from fedgrid.tracking.explained.scores import ExplanationMeans

FILE = "explanations.parquet"
CENTRALISED = "centralised"
"""Algorithm of rows that are of a centralised training."""
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
"""Statistics of a score over the batches of images that a model explained -> their names in headings."""
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
SCHEMA = build_schema(COLUMNS)
"""Columns of a row for each cluster of a run and distribution, or for an epoch of a centralised training."""


def write_rows(rows: Sequence[Mapping[str, Any]], grid: GridFolder) -> None:
    """Write the rows into the folder of an imported grid.

    Raises:
        RunError: They cannot be written.
    """
    path = grid.path / FILE
    # An earlier import may have left rows, which an import without any must replace.
    if rows or path.exists():
        grid.write_file(FILE, encode_parquet(pa.Table.from_pylist(list(rows), schema=SCHEMA)))


def load_rows(grid: GridFolder) -> list[dict[str, Any]]:
    """Load the rows of an imported grid, none if it has no such file.

    Raises:
        RunError: The file is damaged.
        ConfigError: Another version of fedgrid wrote it.
    """
    try:
        rows: list[dict[str, Any]] = read_table(grid.path / FILE, SCHEMA).to_pylist()
    except FileNotFoundError:
        return []
    except DamagedFile as error:
        raise RunError(f"{error}: import the archive again") from error
    return rows


def load_published_scores(grid: GridFolder) -> tuple[ExplanationMeans, ...]:
    """Load the rows of an imported grid that are of its runs, as a report needs them.

    Raises:
        RunError: The file is damaged.
        ConfigError: Another version of fedgrid wrote it.
    """
    return tuple(
        ExplanationMeans(
            scenario=(row["dataset"], row["clients"], row["split"]),
            algorithm=row["algorithm"],
            published=find_paper_row(row["algorithm"]),
            on=row["on"],
            insertion=row["insertion_mean"],
            deletion=row["deletion_mean"],
        )
        for row in load_rows(grid)
        if row["algorithm"] != CENTRALISED
    )


PREFIXES = {"insertion": "ins", "deletion": "del"}
"""Score -> prefix of its columns in the archive."""
ARCHIVE_STATISTICS = {
    "mean": "mean",
    "median": "median",
    "variance": "var",
    "deviation": "std",
    **{name: name for name in ("p05", "p25", "p50", "p75", "p95")},
}
"""Statistic -> its name in the archive."""


def read_explanations(file: ExplanationFile) -> list[dict[str, Any]]:
    """Read the rows of a file, with the columns of `SCHEMA`.

    Raises:
        DataError: It is malformed; the message names the file and the line.
    """
    scenario = file.scenario
    key = "iteration" if scenario is None else "cluster"
    sources = {
        f"{score}_{name}": f"{PREFIXES[score]}_{ARCHIVE_STATISTICS[name]}"
        for score in PREFIXES
        for name in STATISTICS
    }
    table = CsvTable(file.path, (key, *sources.values()))
    numbers = {
        name: table.parse_column(source, least=0, most=1, may_lack=False).tolist()
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
        common
        | _build_key(file, key, name, line)
        | {column: values[line] for column, values in numbers.items()}
        for line, name in enumerate(table.list_cells(key))
    ]


def _build_key(file: ExplanationFile, key: str, name: str, index: int) -> dict[str, Any]:
    """Build the column of a row's cluster, or of its epoch, counted from 1."""
    if key == "cluster":
        return {"cluster": name}
    # The archive counts epochs from 0; line 1 of the file has titles.
    return {"epoch": parse_count(file.path, index + 2, key, name) + 1}
