"""The module of a run, as its clients train and test it."""

import torch
from torch import nn

from fedgrid.engine.federation.models.initialisation import blank
from fedgrid.engine.federation.models.normalisation import Normalised
from fedgrid.grids.attack.attacks.observed import Observed


def module_of(observed: Observed) -> nn.Module:
    """Return a module of the run's model that maps images of [0, 1] to logits, on the CPU, in float32."""
    setup = observed.setup
    module = blank(setup.model, setup.shape, setup.num_classes)
    if (by := setup.normalised_by) is not None:
        module = Normalised(module, by.means, by.deviations, "cpu")
    return module.to(torch.float32)
