"""Server-side algorithms of federated learning, as pure functions: no Ray, no MLflow, no files."""

from fedgrid.algorithms import built_in, registry

registry.ALGORITHMS.update({entry.name: entry for entry in built_in.ENTRIES})
registry.NAMES_IN_PAPERS.update(built_in.NAMES_IN_PAPERS)

# Below the others, as rivals are written on the names of `fedgrid`, which come from there.
from fedgrid.rivals import (  # noqa: E402
    apfl,
    ditto,
    fedala,
    fedamp,
    fedbabu,
    fedbn,
    fedem,
    fedproto,
    fedrep,
    fedsoft,
    fesem,
    pfedme,
)

RIVALS = (
    fedem,
    fesem,
    fedsoft,
    ditto,
    apfl,
    pfedme,
    fedrep,
    fedbabu,
    fedbn,
    fedproto,
    fedala,
    fedamp,
)
for rival in RIVALS:
    registry.ALGORITHMS.update({entry.name: entry for entry in rival.ALGORITHMS})
    registry.NAMES_IN_PAPERS.update({entry.title.lower(): entry.name for entry in rival.ALGORITHMS})
