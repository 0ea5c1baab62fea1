"""Records of explained images: a row for each, with its scores, its curves and, for a few, its map."""

from typing import Any, TypeAlias

import pyarrow as pa

from fedgrid.record_columns import RecordColumn, build_schema

CURVES = {
    "insertion": "when the pixels are put in, most important first",
    "deletion": "when the pixels are taken out, most important first",
    "random_insertion": "when the pixels are put in, in a random order",
    "random_deletion": "when the pixels are taken out, in a random order",
}
"""Name of a curve -> when it is measured."""
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
        for name, when in CURVES.items()
    ),
    RecordColumn("p_full", pa.float64(), "Probability of the class that the curves follow, of the image."),
    RecordColumn("p_base", pa.float64(), "The same with all pixels absent."),
    RecordColumn("empty", pa.bool_(), "Whether the map is the same everywhere."),
    RecordColumn("map_largest", pa.float64(), "Greatest value of the map before it is scaled."),
    RecordColumn("map_values", pa.int32(), "Number of distinct values of the map."),
    *(
        RecordColumn(f"{name}_curve", pa.list_(pa.float16()), f"Probability by step {when}.")
        for name, when in CURVES.items()
    ),
    RecordColumn("map", pa.binary(), "The map as bytes, H x W; of a client's first image only."),
    RecordColumn(
        "pixels", pa.binary(), "The image as bytes, channels x H x W; of a client's first image only."
    ),
)
"""Columns of the records. All but the first nine are null if the model gives no finite numbers."""
SCHEMA = build_schema(COLUMNS)

Row: TypeAlias = dict[str, Any]
