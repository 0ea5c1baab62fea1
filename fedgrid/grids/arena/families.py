"""The families of a file that a data set's images allow."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fedgrid.algorithms.registry import ARENA
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.axes import Item, Preset, items
from fedgrid.grids.presets.preset_files import open_preset
from fedgrid.grids.presets.read_preset import read_preset

__all__ = ["Families", "Item", "Preset", "allow_families", "members", "open_preset", "with_axes"]


class Families(NamedTuple):
    """The families of a file."""

    preset: Preset
    """With those alone that the images allow."""
    left_out: tuple[str, ...]
    """Why each of the others is left out."""

    @property
    def splits(self) -> list[Any]:
        """The splits, as the file has them."""
        return [item.value for item in self.preset.axes["split"]]


def allow_families(file: Path, load: Callable[[Preset], object]) -> Families:
    """Return those of a file's families whose runs can be made, and why not the others.

    Args:
        file: has the key `split`.
        load: makes the runs of a preset; a `ConfigError` says that the images do not allow them.

    Raises:
        ConfigError: they allow none.
    """
    preset = read_preset(open_preset(str(file)), (str(file),))
    possible: list[Item] = []
    left_out: list[str] = []
    for item in preset.axes["split"]:
        try:
            load(with_axes(preset, split=(item,), algorithm=(Item("fedavg"),)))
        except ConfigError as error:
            why = re.sub(rf"^{re.escape(str(file))}, line \d+: ", "", str(error))
            left_out.append(f"family {item.label} is left out: {why}")
            problem = error
        else:
            possible.append(item)
    if not possible:
        raise problem
    return Families(with_axes(preset, split=tuple(possible)), tuple(left_out))


def members() -> list[str]:
    """Return the methods whose entries say that they are in the arena."""
    return [item.label for item in items("algorithm", ARENA)]


def with_axes(preset: Preset, **axes: tuple[Item, ...]) -> Preset:
    """Return a preset with these axes in the place of its own."""
    return replace(preset, axes={**preset.axes, **axes})
