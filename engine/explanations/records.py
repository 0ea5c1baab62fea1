"""The records of explained images: a row an image, with its scores, its curves and, of a few, its map."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from fedgrid.engine.explanations.measures import ImageScores

CURVES = ("insertion", "deletion", "random_insertion", "random_deletion")
SCORES = (*CURVES, "p_full", "p_base")
SCHEMA = pa.schema(
    [
        pa.field("client", pa.int32()),
        pa.field("cluster", pa.int32()),
        pa.field("holder", pa.int32()),
        pa.field("place", pa.int32()),
        pa.field("position", pa.int64()),
        pa.field("trained_on", pa.bool_()),
        pa.field("label", pa.int32()),
        pa.field("prediction", pa.int32()),
        pa.field("base_prediction", pa.int32()),
        *(pa.field(name, pa.float64()) for name in SCORES),
        pa.field("empty", pa.bool_()),
        pa.field("map_largest", pa.float64()),
        pa.field("map_values", pa.int32()),
        *(pa.field(f"{name}_curve", pa.list_(pa.float16())) for name in CURVES),
        pa.field("map", pa.binary()),
        pa.field("pixels", pa.binary()),
    ]
)
"""`client`: whose model explains it; as published the first client of the cluster. `holder`: the client that
is tested with it, null for the server's. `place` among the holder's test images; `position` in the pool, null
for an official test image. `trained_on`: a client of the cluster trains on it. `p_full`, `p_base` and all
areas are of the class that the curve follows. `map_largest` is the greatest value before the map is scaled,
`map_values` the number of distinct values. All but the first nine are null if the model gives no finite
numbers. `map` and `pixels` (bytes, H x W and channels x H x W) are there for a client's first image only."""

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
