"""Configurations that differ in the number of rounds only."""

from fedgrid.engine.federation.configuration.run_config import RunConfig


def with_rounds(config: RunConfig, rounds: int) -> RunConfig:
    """Return a configuration with another number of rounds; whether it is possible then is not checked."""
    values = {key: getattr(config, key) for key in RunConfig.model_fields}
    training = config.training.model_copy(update={"rounds": rounds})
    return RunConfig.model_construct(**{**values, "training": training})


def adds_rounds(longer: RunConfig, shorter: RunConfig) -> bool:
    """Return whether two configurations differ in nothing but that the first has more rounds."""
    rounds = shorter.training.rounds
    return rounds < longer.training.rounds and with_rounds(longer, rounds) == shorter
