"""Grids of clustered federated learning experiments on Ray.

    import fedgrid

    result = fedgrid.run({"dataset": "digits", "algorithm": "ocfl-hdbscan", "clients": 15})
    study = fedgrid.load("paper-digits", "runs")
    fedgrid.figures.segments(study.where(dataset="digits")).savefig("segments.pdf")

The names in `__all__` are for notebooks and plugins, and stay. Everything else may move. A name is imported
when it is used, so `import fedgrid.algorithms` needs neither Ray nor MLflow.
"""

import random
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.errors import FedgridError, suggest_name
from fedgrid.redaction import redact_secrets

if TYPE_CHECKING:
    from fedgrid.algorithms.averaging.fedopt import (
        FedOpt,
        FedOptSettings,
        OwnAdaptationSettings,
        OwnRuleSettings,
    )
    from fedgrid.algorithms.clustered.while_training.ocfl import Ocfl, OcflSettings
    from fedgrid.algorithms.clustering.clusterers import Clusterer
    from fedgrid.algorithms.clustering.splits import split_by_labels, split_positions
    from fedgrid.algorithms.contract.aggregator import Aggregator
    from fedgrid.algorithms.contract.base import (
        Algorithm,
        Diagnostics,
        Fresh,
        Labels,
        Settings,
        State,
        Traits,
    )
    from fedgrid.algorithms.contract.conditions import Conditions
    from fedgrid.algorithms.contract.encoder import EncoderSettings
    from fedgrid.algorithms.contract.entry import AlgorithmEntry, OwnNumber
    from fedgrid.algorithms.contract.local_method import LocalMethod
    from fedgrid.algorithms.contract.local_rule import PLAIN, Finished, LocalModel, LocalRule, LocalSteps
    from fedgrid.algorithms.contract.orders import (
        Adaptation,
        Message,
        Order,
        Payload,
        Presence,
        Served,
        Traffic,
    )
    from fedgrid.algorithms.contract.section import FirstRound
    from fedgrid.algorithms.contract.split import split
    from fedgrid.algorithms.updates.source import Layout, Matrix, Vector
    from fedgrid.algorithms.updates.updates import Updates
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.data.images import ImageSet
    from fedgrid.engine.federation.data.own import OwnDataset
    from fedgrid.engine.federation.dealing.own import OwnSplit
    from fedgrid.engine.federation.inputs import Inputs
    from fedgrid.engine.federation.models.registry import ModelEntry
    from fedgrid.engine.federation.partition.kind import ImagePool
    from fedgrid.engine.runtime.plugins.pretrained import pretrained
    from fedgrid.grids.analyses.analysis import Analysis, AnalysisSettings, Artifacts
    from fedgrid.grids.execution.one_run import run, run_grid
    from fedgrid.grids.results.study import load
    from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun, Tracker
    from fedgrid.tracking import figures
    from fedgrid.tracking.scoring.run import Run
    from fedgrid.tracking.scoring.study import Study

# The engine imports nothing above it, so that the package connects the two.
FedgridError.clean = redact_secrets

__all__ = [
    "PLAIN",
    "Adaptation",
    "Aggregator",
    "Algorithm",
    "AlgorithmEntry",
    "Analysis",
    "AnalysisSettings",
    "Artifacts",
    "Clusterer",
    "Conditions",
    "Diagnostics",
    "EncoderSettings",
    "FedOpt",
    "FedOptSettings",
    "FedgridError",
    "Finished",
    "FirstRound",
    "Fresh",
    "ImagePool",
    "ImageSet",
    "Inputs",
    "Labels",
    "Layout",
    "LocalMethod",
    "LocalModel",
    "LocalRule",
    "LocalSteps",
    "Matrix",
    "Message",
    "ModelEntry",
    "Ocfl",
    "OcflSettings",
    "Order",
    "OwnAdaptationSettings",
    "OwnDataset",
    "OwnNumber",
    "OwnRuleSettings",
    "OwnSplit",
    "Payload",
    "Presence",
    "Run",
    "RunConfig",
    "Served",
    "Settings",
    "State",
    "Study",
    "TrackedGrid",
    "TrackedRun",
    "Tracker",
    "Traffic",
    "Traits",
    "Updates",
    "Vector",
    "figures",
    "load",
    "pretrained",
    "run",
    "run_grid",
    "split",
    "split_by_labels",
    "split_positions",
]

_NAMES = {
    "algorithms.averaging.fedopt": "FedOpt FedOptSettings OwnAdaptationSettings OwnRuleSettings",
    "algorithms.clustered.while_training.ocfl": "Ocfl OcflSettings",
    "algorithms.clustering.clusterers": "Clusterer",
    "algorithms.clustering.splits": "split_by_labels split_positions",
    "algorithms.contract.aggregator": "Aggregator",
    "algorithms.contract.base": "Algorithm Diagnostics Fresh Labels Settings State Traits",
    "algorithms.contract.conditions": "Conditions",
    "algorithms.contract.encoder": "EncoderSettings",
    "algorithms.contract.entry": "AlgorithmEntry OwnNumber",
    "algorithms.contract.local_method": "LocalMethod",
    "algorithms.contract.local_rule": "PLAIN Finished LocalModel LocalRule LocalSteps",
    "algorithms.contract.orders": "Adaptation Message Order Payload Presence Served Traffic",
    "algorithms.contract.section": "FirstRound",
    "algorithms.contract.split": "split",
    "algorithms.updates.source": "Layout Matrix Vector",
    "algorithms.updates.updates": "Updates",
    "engine.federation.configuration.run_config": "RunConfig",
    "engine.federation.data.images": "ImageSet",
    "engine.federation.data.own": "OwnDataset",
    "engine.federation.dealing.own": "OwnSplit",
    "engine.federation.inputs": "Inputs",
    "engine.federation.models.registry": "ModelEntry",
    "engine.federation.partition.kind": "ImagePool",
    "engine.runtime.plugins.pretrained": "pretrained",
    "grids.analyses.analysis": "Analysis AnalysisSettings Artifacts",
    "grids.execution.one_run": "run run_grid",
    "grids.results.study": "load",
    "grids.trackers.tracker": "TrackedGrid TrackedRun Tracker",
    "tracking.scoring.run": "Run",
    "tracking.scoring.study": "Study",
}
"""Module below this package -> the names that it defines."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""Exported name -> its module below this package."""


def __getattr__(name: str) -> Any:
    """Import a name when it is used for the first time.

    Raises:
        AttributeError: there is no such name; names the nearest one.
    """
    if name != "figures" and name not in _MODULES:
        raise AttributeError(
            f"module 'fedgrid' has no attribute {name!r}; {suggest_name(name, __all__)}".rstrip("; ")
        )
    import_module("fedgrid.engine.runtime.configuration.validation")  # Explains errors of what is imported.
    # Rich draws a number as it is imported, from the generator that the caller may have seeded.
    state = random.getstate()
    module = import_module(f"fedgrid.{_MODULES.get(name, 'tracking.figures')}")
    random.setstate(state)
    value = module if name == "figures" else getattr(module, name)
    # The next access finds it without this function.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the exported names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
