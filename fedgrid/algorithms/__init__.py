"""Server-side algorithms of federated learning, as pure functions: no Ray, no MLflow, no files."""

from fedgrid.algorithms import built_in, registry

registry.ALGORITHMS.update({entry.name: entry for entry in built_in.ENTRIES})
registry.NAMES_IN_PAPERS.update(built_in.NAMES_IN_PAPERS)
