"""What tables call a run's algorithm: its title, and the settings that tell it from others of that title."""

from collections.abc import Mapping, Sequence

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.run_config import RunConfig
from fedgrid.grids.presets.axis_keys import AXES, SETTING, axis_keys
from fedgrid.grids.results.axes import values_of

UNSET = (None, "null")


def titles(configs: Sequence[RunConfig], axes: Sequence[str]) -> list[str]:
    """Return a title for each run: `BCL`, or `BCL (threshold 0.1)` where another BCL differs in no axis.

    `axes` are the grid's further axes, as of `further_axes`.
    """
    settings = [key for key in axis_keys() if key.startswith(SETTING)]
    alike = (*AXES, *(axis for axis in axes if not axis.startswith(SETTING)))
    values = [values_of(config, settings) for config in configs]
    shown = _differing([tuple(values_of(config, alike).values()) for config in configs], values)
    found = []
    for config, of_run in zip(configs, values, strict=True):
        title = ALGORITHMS[config.algorithm["name"]].title
        words = [f"{key.removeprefix(SETTING)} {of_run[key]}" for key in shown if of_run[key] not in UNSET]
        found.append(f"{title} ({', '.join(words)})" if words else title)
    return found


def _differing(
    cells: Sequence[tuple[str | None, ...]], values: Sequence[Mapping[str, str | None]]
) -> list[str]:
    """Return the settings in which runs of one cell differ."""
    groups: dict[tuple[str | None, ...], list[Mapping[str, str | None]]] = {}
    for cell, of_run in zip(cells, values, strict=True):
        groups.setdefault(cell, []).append(of_run)
    differing: dict[str, None] = {}
    for group in groups.values():
        differing |= dict.fromkeys(key for key in group[0] if len({of_run[key] for of_run in group}) > 1)
    return list(differing)
