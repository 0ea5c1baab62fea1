"""What stands in an archive beside its runs: centralised trainings, scores of explanations, other things."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.grids.archive import centralised, explanations, layout
from fedgrid.grids.results import archived_explanations, archived_trainings
from fedgrid.grids.results.archived_trainings import ArchivedTraining
from fedgrid.grids.results.grid_folder import GridFolder

NAMED = 6
"""Number of skipped files and folders that are named."""


@dataclass(frozen=True)
class Rest:
    """What stands among the runs of an archive."""

    trainings: Sequence[ArchivedTraining]
    """Centralised trainings."""
    unreadable: Sequence[str]
    """A sentence on each centralised training that cannot be read."""
    strays: Sequence[str]
    """Folders without runs or trainings."""
    explanations: Sequence[Mapping[str, Any]]
    """Rows of scores, as `archived_explanations.SCHEMA`."""
    unexplained: Sequence[str]
    """A sentence on each file of scores that cannot be read."""
    other_files: Sequence[str]
    """What is no such file in the folders of scores."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the command's output."""
        if self.trainings:
            datasets = dict.fromkeys(training.dataset for training in self.trainings)
            yield (
                f"centralised trainings: {len(self.trainings)} ({', '.join(datasets)}); `fedgrid centralised "
                f"{next(iter(datasets))}` shows them beside its own"
            )
        if self.explanations:
            datasets = dict.fromkeys(str(row["dataset"]) for row in self.explanations)
            yield (
                f"scores of explanations: {len(self.explanations)} models ({', '.join(datasets)}); `fedgrid "
                "report` has their tables"
            )
        if self.strays:
            yield f"skipped, no runs in them: {_named(self.strays)}"
        if self.other_files:
            yield f"skipped, no scores of explanations: {_named(self.other_files)}"
        yield from (f"skipped, a centralised training: {problem}" for problem in self.unreadable)
        yield from (f"skipped, scores of explanations: {problem}" for problem in self.unexplained)

    def as_dict(self) -> dict[str, Any]:
        """Return the part of the JSON output."""
        named = [f"{training.dataset}: {training.name}" for training in self.trainings]
        skipped = [*self.strays, *self.other_files, *self.unreadable, *self.unexplained]
        return {"centralised": named, "explanations": len(self.explanations), "skipped": skipped}

    def keep(self, grid: GridFolder) -> None:
        """Write what was read into the folder of an imported grid.

        Raises:
            RunError: if it cannot be written.
        """
        archived_trainings.keep(self.trainings, grid)
        archived_explanations.keep(self.explanations, grid)


def rest_of(archive: Path) -> Rest:
    """Read what stands beside the runs; what cannot be read is told and left."""
    trainings, problems = centralised.read_all(layout.trainings(archive))
    files, others = layout.explanations(archive)
    rows, unexplained = explanations.read_all(files)
    strays = layout.skipped(archive)
    return Rest(trainings, problems, _below(archive, strays), rows, unexplained, _below(archive, others))


def _below(archive: Path, paths: Sequence[Path]) -> list[str]:
    return [path.relative_to(archive).as_posix() for path in paths]


def _named(names: Sequence[str]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
