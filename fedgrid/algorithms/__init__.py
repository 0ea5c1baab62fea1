"""Server-side algorithms of federated learning, as pure functions: no Ray, no MLflow, no files."""

from fedgrid.algorithms import built_in, registry

registry.ALGORITHMS.update({entry.name: entry for entry in built_in.ENTRIES})
registry.ALSO_CALLED.update(built_in.ALSO_CALLED)
