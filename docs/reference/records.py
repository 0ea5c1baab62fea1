"""The page of a run's files, and of the columns of Parquet files as the code declares them."""

from collections.abc import Iterable, Iterator

from docs.reference.markdown import code, page, table
from fedgrid.grids.archive import explanation_records
from fedgrid.grids.explain.compute import records as explanations
from fedgrid.record_columns import EVERY_COLUMN, RecordColumn

FILES = {
    "rounds.parquet": ("A row a round.", EVERY_COLUMN["rounds"]),
    "clients.parquet": (
        "A row a round and client; null where it was not trained or not tested.",
        EVERY_COLUMN["clients"],
    ),
    "timings.parquet": (
        "A row a round: wall-clock times and memory, which differ between machines.",
        EVERY_COLUMN["timings"],
    ),
    "explanations/*.parquet": (
        "A row an image, of the analysis `explain`. All but the first nine columns are null if the model "
        "gives no finite numbers.",
        explanations.COLUMNS,
    ),
    "explanations.parquet of an imported grid": (
        "A row a cluster of a run and distribution of images, or an epoch of a centralised training.",
        explanation_records.COLUMNS,
    ),
}
"""Heading -> what a row is, and the columns."""


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    parts = [
        part
        for heading, (rows, columns) in FILES.items()
        for part in (f"## {heading}", rows, table(HEADER, _rows(columns)))
    ]
    return {
        "reference/records.md": page(
            "# Files and columns of a run",
            "## Files",
            "Of a finished run. The records have the same bytes whenever it is repeated, but for the times.",
            table(("file", "what it is for"), [(code(name), what) for name, what in FOLDER.items()]),
            "A failed run has `failed.json`, with the cause. A run that goes on may have its later rounds in "
            "segments: `clients-000069.parquet` from round 69 on. Its last round joins them.",
            "Columns that only some runs have are listed below too; on the terminal: `fedgrid list columns`. "
            "[Scores](scores.md) and [tables and figures](report.md) are made from these files.",
            *parts,
        )
    }


FOLDER = {
    "config.json": "Which run it is: the id is its digest.",
    "manifest.json": "How many rounds are done, whether all are; what they were made with (images, code, "
    "versions, processor); size and checksum of each file above and below it. Written last.",
    "manifest-before.json": "The manifest before that one.",
    "rounds.parquet": "A row a round.",
    "clients.parquet": "A row a round and client: all scores of clients come from it.",
    "timings.parquet": "A row a round: the one table that differs when the run is repeated.",
    "state-N.safetensors": "Models, labels and memories after round N: the last two rounds.",
    "scores.json": "The final scores.",
    "mlflow.json": "That MLflow has all rounds, and which store.",
    "tags.json": "Your note and tags (`fedgrid show RUN --note`).",
    "log.txt": "When it started and ended, and its warnings.",
}
HEADER = ("column", "type", "meaning")


def _rows(columns: Iterable[RecordColumn]) -> Iterator[tuple[str, str, str]]:
    return ((code(column.name), str(column.type), column.meaning) for column in columns)
