"""A grid's name belongs to one preset or file."""

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GridFolder


def check_source(grid: Grid, storage: Storage) -> None:
    """Check that a grid of that name, if there is one, comes from the same preset.

    Raises:
        ConfigError: it comes from another file with another content, or it cannot be read.
    """
    folder = GridFolder(storage, grid.name)
    if grid.is_named or not folder.is_there:
        return
    before = folder.source()
    if before in ("", grid.source) or folder.preset() == grid.text.encode():
        return
    raise ConfigError(
        f"the grid {grid.name} in {storage} comes from {before}, not from {grid.source}: --name OTHER makes "
        f"this a grid of its own, --name {grid.name} adds it to that one"
    )
