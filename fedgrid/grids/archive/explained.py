"""The OCFL authors' scores of explanations, as a report needs them."""

from fedgrid.algorithms import registry
from fedgrid.grids.archive.explanation_records import CENTRALISED, of_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.tracking.explained.scores import Explained


def explained(grid: GridFolder) -> tuple[Explained, ...]:
    """Return the rows of an imported grid that are of its runs.

    Raises:
        RunError, ConfigError: as `of_grid`.
    """
    return tuple(
        Explained(
            scenario=(row["dataset"], row["clients"], row["split"]),
            algorithm=row["algorithm"],
            published=registry.row_in_papers(row["algorithm"]),
            on=row["on"],
            insertion=row["insertion_mean"],
            deletion=row["deletion_mean"],
        )
        for row in of_grid(grid)
        if row["algorithm"] != CENTRALISED
    )
