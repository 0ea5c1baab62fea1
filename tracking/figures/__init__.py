"""Figures of runs and of studies: functions that return a matplotlib figure, which `save` writes.

They use their own settings and no pyplot, so that the same records give the same bytes.
"""

from fedgrid.tracking.figures.axes import over_axis, over_epsilon, sweep
from fedgrid.tracking.figures.boxes import explanation_boxes
from fedgrid.tracking.figures.centralised import update_norms
from fedgrid.tracking.figures.cost import cost_to_target
from fedgrid.tracking.figures.curves import (
    accuracy_per_round,
    ari_per_round,
    cluster_sizes_per_round,
    f1_per_round,
    fairness_per_round,
    global_accuracy_per_round,
    learning_gap,
    loss_gap,
    silhouette_per_round,
)
from fedgrid.tracking.figures.holdings import class_counts
from fedgrid.tracking.figures.maps import cluster_maps
from fedgrid.tracking.figures.personalisation import communities, segments
from fedgrid.tracking.figures.ranks import critical_difference
from fedgrid.tracking.figures.runs import cluster_map, temperature, write
from fedgrid.tracking.figures.style import PaperFigure, save
from fedgrid.tracking.figures.temperature_curves import (
    temperature_bands,
    temperature_over_datasets,
    temperatures,
)

__all__ = [
    "PaperFigure",
    "accuracy_per_round",
    "ari_per_round",
    "class_counts",
    "cluster_map",
    "cluster_maps",
    "cluster_sizes_per_round",
    "communities",
    "cost_to_target",
    "critical_difference",
    "explanation_boxes",
    "f1_per_round",
    "fairness_per_round",
    "global_accuracy_per_round",
    "learning_gap",
    "loss_gap",
    "over_axis",
    "over_epsilon",
    "save",
    "segments",
    "silhouette_per_round",
    "sweep",
    "temperature",
    "temperature_bands",
    "temperature_over_datasets",
    "temperatures",
    "update_norms",
    "write",
]
