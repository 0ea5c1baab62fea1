"""A plugin with an analysis of its own: how many cluster models a run ended with."""

import fedgrid


class Models(fedgrid.Analysis):
    """Counts the models in the state."""

    name = "models"

    def compute(self, job, context):
        return fedgrid.Artifacts({"count": len(context.state(job).state.models)})


ANALYSES = [Models()]
