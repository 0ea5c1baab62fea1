"""The models of runs that were imported from the OCFL authors' archive instead of trained here."""

from fedgrid.engine.federation.configuration.run_config import RunConfig

MODELS = {
    "mnist": "archive-cnn",
    "fmnist": "archive-cnn",
    "cifar10": "archive-resnet34",
    "pathmnist": "archive-resnet34",
    "bloodmnist": "archive-resnet34",
}
"""Data set -> model of an archived run. The authors' CNN is not published. No model that can be trained has
one of these names, so an archived run and a run of our own never share an id."""


def is_archived(config: RunConfig) -> bool:
    """Check whether a run was imported from the archive."""
    return config.model in MODELS.values()
