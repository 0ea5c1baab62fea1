"""Figures of runs and of studies: functions that return a matplotlib figure, which `save` writes.

They use their own settings and no pyplot, so that the same records give the same bytes.
"""

from fedgrid.tracking.figures.axes import over_axis
from fedgrid.tracking.figures.centralised import update_norms
from fedgrid.tracking.figures.cost import cost_to_target
from fedgrid.tracking.figures.curves import ari_per_round, learning_gap
from fedgrid.tracking.figures.maps import cluster_maps
from fedgrid.tracking.figures.personalisation import segments
from fedgrid.tracking.figures.ranks import critical_difference
from fedgrid.tracking.figures.runs import cluster_map, temperature, write
from fedgrid.tracking.figures.style import save
from fedgrid.tracking.figures.temperature_curves import temperature_bands, temperatures

__all__ = [
    "ari_per_round",
    "cluster_map",
    "cluster_maps",
    "cost_to_target",
    "critical_difference",
    "learning_gap",
    "over_axis",
    "save",
    "segments",
    "temperature",
    "temperature_bands",
    "temperatures",
    "update_norms",
    "write",
]
