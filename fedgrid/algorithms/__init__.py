"""Server-side algorithms of federated learning, as pure functions: no Ray, no MLflow, no files."""

from fedgrid.algorithms import built_in, registry
from fedgrid.algorithms.contract import aggregator
from fedgrid.algorithms.robust import entries as robust
from fedgrid.rivals import (
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
    flexcfl,
    pacfl,
    pfedme,
)

RIVALS = (
    fedem,
    fesem,
    fedsoft,
    pacfl,
    flexcfl,
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
"""Modules of the rivals, clustered ones first, in the order in which lists show them."""

aggregator.AGGREGATORS.update(robust.ROBUST_MEANS)
for entry in (*built_in.ENTRIES, *(entry for rival in RIVALS for entry in rival.ALGORITHMS)):
    registry.ALGORITHMS[entry.name] = entry
    registry.NAMES_IN_PAPERS.setdefault(entry.title.lower(), entry.name)
registry.NAMES_IN_PAPERS.update(built_in.NAMES_IN_PAPERS)
