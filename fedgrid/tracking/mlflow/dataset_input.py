"""A run's data set, for MLflow's column *Dataset*."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedgrid.redaction import redacted

NAME_LENGTH, DIGEST_LENGTH = 500, 36
"""Limits of MLflow."""


@dataclass(frozen=True)
class DatasetInput:
    """The data set of a run."""

    name: str
    digest: str
    """Of its images; empty if it is not known."""
    source: str
    """Where the images come from."""
    profile: Mapping[str, Any]
    """Facts about it, which MLflow shows as JSON."""
    context: str
    """What it is used for."""

    def entity(self) -> Any:
        """Return it as MLflow's entity."""
        from mlflow.entities import Dataset, DatasetInput, InputTag
        from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

        dataset = Dataset(
            self.name[:NAME_LENGTH],
            self.digest[:DIGEST_LENGTH] or "unknown",
            source_type="local",
            source=json.dumps({"uri": redacted(self.source)}),
            profile=json.dumps(self.profile),
        )
        return DatasetInput(dataset, [InputTag(MLFLOW_DATASET_CONTEXT, self.context)])
