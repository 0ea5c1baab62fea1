"""Which columns the records of a run have beside those of every run."""

from fedgrid.algorithms.contract.base import Traits
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.partition.scenarios import CENTRALISED
from fedgrid.engine.federation.record_names import EPSILON, FAULT
from fedgrid.engine.federation.uplink.privacy import is_private


def columns_of(config: RunConfig, traits: Traits | None) -> frozenset[str]:
    """Return the columns of a run that not all records have.

    They are the algorithm's own, `fault` under attack, `epsilon` with noise, `centralised` for its norms.
    `traits` are the algorithm's, None if it is not known here.
    """
    own = traits.columns if traits is not None else frozenset()
    attacked = {FAULT} if config.faults.clients else set()
    private = {EPSILON} if is_private(config.uplink, config.privacy) else set()
    centralised = {CENTRALISED} if config.split.kind == CENTRALISED else set()
    return own | attacked | private | centralised
