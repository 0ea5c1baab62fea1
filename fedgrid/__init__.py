"""Grids of clustered federated learning experiments on Ray.

    import fedgrid

    result = fedgrid.run({"dataset": "digits", "algorithm": "ocfl-hdbscan", "clients": 15})
    study = fedgrid.load("paper-digits", "runs")
    fedgrid.figures.segments(study.where(dataset="digits")).savefig("segments.pdf")

The names in `__all__` are for notebooks and plugins, and stay. Everything else may move. A name is imported
when it is used, so `import fedgrid.algorithms` needs neither Ray nor MLflow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.redaction import redacted

if TYPE_CHECKING:
    from fedgrid.algorithms.averaging.fedopt import (
        FedOpt,
        FedOptSettings,
        OwnAdaptationSettings,
        OwnRuleSettings,
        split_positions,
    )
    from fedgrid.algorithms.clustered.while_training.ocfl import Ocfl, OcflSettings
    from fedgrid.algorithms.clustering.clusterers import Clusterer
    from fedgrid.algorithms.contract.aggregator import Aggregator
    from fedgrid.algorithms.contract.base import (
        Algorithm,
        Conditions,
        Diagnostics,
        Fresh,
        Labels,
        Settings,
        State,
        split,
    )
    from fedgrid.algorithms.contract.encoder import EncoderSettings
    from fedgrid.algorithms.contract.entry import AlgorithmEntry, OwnNumber
    from fedgrid.algorithms.contract.first_round import FirstRound
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
    from fedgrid.algorithms.contract.traits import Traits
    from fedgrid.algorithms.updates.layout import Layout
    from fedgrid.algorithms.updates.source import Matrix, Vector
    from fedgrid.algorithms.updates.updates import Updates
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.models.registry import ModelEntry
    from fedgrid.grids.analyses.analysis import Analysis, AnalysisSettings, Artifacts
    from fedgrid.grids.execution.one_run import run, run_grid
    from fedgrid.grids.results.study import load
    from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun, Tracker
    from fedgrid.tracking import figures
    from fedgrid.tracking.scoring.run import Run
    from fedgrid.tracking.scoring.study import Study

FedgridError.clean = redacted

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
    "OwnNumber",
    "OwnRuleSettings",
    "Payload",
    "Presence",
    "RunConfig",
    "Run",
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
    "run",
    "run_grid",
    "split",
    "split_positions",
]

_MODULES = {
    "PLAIN": "algorithms.contract.local_rule",
    "Adaptation": "algorithms.contract.orders",
    "Aggregator": "algorithms.contract.aggregator",
    "Algorithm": "algorithms.contract.base",
    "AlgorithmEntry": "algorithms.contract.entry",
    "Analysis": "grids.analyses.analysis",
    "AnalysisSettings": "grids.analyses.analysis",
    "Artifacts": "grids.analyses.analysis",
    "Clusterer": "algorithms.clustering.clusterers",
    "Conditions": "algorithms.contract.base",
    "Diagnostics": "algorithms.contract.base",
    "EncoderSettings": "algorithms.contract.encoder",
    "FedOpt": "algorithms.averaging.fedopt",
    "FedOptSettings": "algorithms.averaging.fedopt",
    "Finished": "algorithms.contract.local_rule",
    "FirstRound": "algorithms.contract.first_round",
    "Fresh": "algorithms.contract.base",
    "Labels": "algorithms.contract.base",
    "Layout": "algorithms.updates.layout",
    "LocalMethod": "algorithms.contract.local_method",
    "LocalModel": "algorithms.contract.local_rule",
    "LocalRule": "algorithms.contract.local_rule",
    "LocalSteps": "algorithms.contract.local_rule",
    "Matrix": "algorithms.updates.source",
    "Message": "algorithms.contract.orders",
    "ModelEntry": "engine.federation.models.registry",
    "Ocfl": "algorithms.clustered.while_training.ocfl",
    "OcflSettings": "algorithms.clustered.while_training.ocfl",
    "Order": "algorithms.contract.orders",
    "OwnAdaptationSettings": "algorithms.averaging.fedopt",
    "OwnNumber": "algorithms.contract.entry",
    "OwnRuleSettings": "algorithms.averaging.fedopt",
    "Payload": "algorithms.contract.orders",
    "Presence": "algorithms.contract.orders",
    "RunConfig": "engine.federation.configuration.run_config",
    "Run": "tracking.scoring.run",
    "Served": "algorithms.contract.orders",
    "Settings": "algorithms.contract.base",
    "State": "algorithms.contract.base",
    "Study": "tracking.scoring.study",
    "TrackedGrid": "grids.trackers.tracker",
    "TrackedRun": "grids.trackers.tracker",
    "Tracker": "grids.trackers.tracker",
    "Traffic": "algorithms.contract.orders",
    "Traits": "algorithms.contract.traits",
    "Updates": "algorithms.updates.updates",
    "Vector": "algorithms.updates.source",
    "load": "grids.results.study",
    "run": "grids.execution.one_run",
    "run_grid": "grids.execution.one_run",
    "split": "algorithms.contract.base",
    "split_positions": "algorithms.averaging.fedopt",
}
"""Where each name is defined, below this package."""


def __getattr__(name: str) -> Any:
    if name == "figures":
        return import_module("fedgrid.tracking.figures")
    if name not in _MODULES:
        raise AttributeError(f"module 'fedgrid' has no attribute {name!r}")
    value = getattr(import_module(f"fedgrid.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
