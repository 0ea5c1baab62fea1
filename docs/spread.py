"""How far apart the cluster models of a run end."""

import numpy as np

import fedgrid


class Spread(fedgrid.Analysis):
    """Mean distance of the cluster models from their mean."""

    name = "spread"

    def compute(self, job, context):
        """Compute the number of one run; fedgrid calls it once for each finished run."""
        models_CP = np.stack(context.state(job).state.models)
        distances_C = np.linalg.norm(models_CP - models_CP.mean(axis=0), axis=1)
        return fedgrid.Artifacts({"distance": float(distances_C.mean())})


ANALYSES = [Spread()]
