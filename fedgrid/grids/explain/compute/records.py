"""The records of explained images: a row an image, with its scores, its curves and, of a few, its map."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from fedgrid.engine.runtime.integrity.tables import parquet_bytes, read_table
from fedgrid.record_columns import RecordColumn, schema_of

__all__ = [
    "COLUMNS",
    "CURVES",
    "SCHEMA",
    "SCORES",
    "Row",
    "parquet_bytes",
    "read_parquet",
    "score_columns",
]

if TYPE_CHECKING:
    from fedgrid.grids.explain.compute.measures import ImageScores

CURVES = ("insertion", "deletion", "random_insertion", "random_deletion")
SCORES = (*CURVES, "p_full", "p_base")
_AREAS = {
    "insertion": "when the pixels are put in, most important first",
    "deletion": "when the pixels are taken out, most important first",
    "random_insertion": "when the pixels are put in, in a random order",
    "random_deletion": "when the pixels are taken out, in a random order",
}
COLUMNS = (
    RecordColumn(
        "client", pa.int32(), "Whose model explains it; as published the first client of the cluster."
    ),
    RecordColumn("cluster", pa.int32(), "The cluster of that client."),
    RecordColumn("holder", pa.int32(), "The client that is tested with it; null for the server's."),
    RecordColumn("place", pa.int32(), "Its place among the holder's test images, from 0."),
    RecordColumn(
        "position", pa.int64(), "Its position in the data set's pool; null for an official test image."
    ),
    RecordColumn("trained_on", pa.bool_(), "Whether a client of the cluster trains on it."),
    RecordColumn("label", pa.int32(), "Its class."),
    RecordColumn("prediction", pa.int32(), "The class that the model predicts."),
    RecordColumn("base_prediction", pa.int32(), "The same with all pixels absent."),
    *(
        RecordColumn(name, pa.float64(), f"Area under the curve of the probability {when}.")
        for name, when in _AREAS.items()
    ),
    RecordColumn("p_full", pa.float64(), "Probability of the class that the curves follow, of the image."),
    RecordColumn("p_base", pa.float64(), "The same with all pixels absent."),
    RecordColumn("empty", pa.bool_(), "Whether the map is the same everywhere."),
    RecordColumn("map_largest", pa.float64(), "Greatest value of the map before it is scaled."),
    RecordColumn("map_values", pa.int32(), "Number of distinct values of the map."),
    *(
        RecordColumn(f"{name}_curve", pa.list_(pa.float16()), f"Probability by step {when}.")
        for name, when in _AREAS.items()
    ),
    RecordColumn("map", pa.binary(), "The map as bytes, H x W; of a client's first image only."),
    RecordColumn(
        "pixels", pa.binary(), "The image as bytes, channels x H x W; of a client's first image only."
    ),
)
"""All but the first nine are null if the model gives no finite numbers."""
SCHEMA = schema_of(COLUMNS)

Row: TypeAlias = dict[str, Any]


def score_columns(scores: "ImageScores") -> Row:
    """Return the columns of an image's scores and curves."""
    by_map, by_chance = scores.curves
    curves = by_map.insertion, by_map.deletion, by_chance.insertion, by_chance.deletion
    return {
        **{name: getattr(scores, name) for name in SCORES},
        "empty": scores.is_empty,
        **{
            f"{name}_curve": curve.numpy().astype(np.float16)
            for name, curve in zip(CURVES, curves, strict=True)
        },
    }


def read_parquet(path: Path) -> pa.Table:
    """Return the records of a file.

    Raises:
        DamagedFile: they are not what was written.
    """
    return read_table(path, SCHEMA)
