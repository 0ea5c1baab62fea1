"""Server-side algorithms of federated learning, as pure functions: no Ray, no MLflow, no files."""

from types import ModuleType

from fedgrid.algorithms import built_in, registry

registry.ALGORITHMS.update({entry.name: entry for entry in built_in.ENTRIES})
registry.NAMES_IN_PAPERS.update(built_in.NAMES_IN_PAPERS)

# Rivals are written on the names of `fedgrid` alone, so that they come last.
RIVALS: tuple[ModuleType, ...] = ()
for rival in RIVALS:
    registry.ALGORITHMS.update({entry.name: entry for entry in rival.ALGORITHMS})
    registry.NAMES_IN_PAPERS.update({entry.title.lower(): entry.name for entry in rival.ALGORITHMS})
