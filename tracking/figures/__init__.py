"""Figures of runs and of studies, each a function that returns a matplotlib figure; `save` writes it.

They are drawn without pyplot and with settings of their own, so that the same records give the same bytes.
"""

from tracking.figures.centralised import update_norms
from tracking.figures.cost import cost_to_target
from tracking.figures.curves import ari_per_round, learning_gap
from tracking.figures.look import save
from tracking.figures.maps import cluster_maps
from tracking.figures.personalisation import segments
from tracking.figures.ranks import critical_difference
from tracking.figures.runs import cluster_map, temperature, write
from tracking.figures.temperature_curves import temperature_bands, temperatures

__all__ = [
    "ari_per_round",
    "cluster_map",
    "cluster_maps",
    "cost_to_target",
    "critical_difference",
    "learning_gap",
    "save",
    "segments",
    "temperature",
    "temperature_bands",
    "temperatures",
    "update_norms",
    "write",
]
