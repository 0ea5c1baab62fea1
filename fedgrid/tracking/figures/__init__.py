"""Figures of runs and of studies: functions that return a matplotlib figure, which `save` writes.

They use their own settings and no pyplot, so that the same records give the same bytes; `style_context`
draws them in a style of the user's.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import fedgrid
    >>> train_KL, test_KL = np.array([[9, 1], [2, 8]]), np.array([[3, 0], [1, 2]])
    >>> figure = fedgrid.figures.class_counts(train_KL, test_KL, groups_K=np.array([0, 1]))
    >>> [axes.get_title() for axes in figure.axes]
    ['training images, at most 9 of a class', 'test images, at most 3 of a class']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fedgrid.figures.save(figure, Path(folder, "classes.svg"))
    ...     [path.name for path in Path(folder).iterdir()]
    ['classes.svg']
"""

from typing import Any

from fedgrid.arguments import nearest_name
from fedgrid.tracking.figures.axes import over_axis, over_epsilon, sweep
from fedgrid.tracking.figures.curves import per_round, update_norms
from fedgrid.tracking.figures.maps import class_counts, client_curves, cluster_maps
from fedgrid.tracking.figures.rows import communities, cost_to_target, critical_difference, segments
from fedgrid.tracking.figures.runs import cluster_map, run_figure, write
from fedgrid.tracking.figures.style import PaperFigure, save, style_context
from fedgrid.tracking.figures.temperature_curves import temperature_bands, temperatures

__all__ = [
    "PaperFigure",
    "class_counts",
    "client_curves",
    "cluster_map",
    "cluster_maps",
    "communities",
    "cost_to_target",
    "critical_difference",
    "over_axis",
    "over_epsilon",
    "per_round",
    "run_figure",
    "save",
    "segments",
    "style_context",
    "sweep",
    "temperature_bands",
    "temperatures",
    "update_norms",
    "write",
]


def __getattr__(name: str) -> Any:
    near = nearest_name(name, __all__)
    raise AttributeError(f"no figure {name!r}; {near}there are {', '.join(__all__)}")
