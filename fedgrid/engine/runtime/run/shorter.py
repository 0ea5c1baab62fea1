"""Rounds of a finished run whose configuration is another one's but for fewer rounds: its first ones too.

Of what a run's numbers depend on, only the tests of the last round know how many rounds there are: they are
made whatever `evaluation.every` says. Where no test was due, the round before is the last one in common.
"""

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
