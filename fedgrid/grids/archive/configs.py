"""The configurations of the archive's runs."""

from collections.abc import Iterable
from functools import cache

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.grids.archive.layout import FoundRun
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.archived import MODELS, is_archived

PRESET = "paper-as-published"
SEED, TEMPERATURE_SEED = 0, 1
"""The archive has no seeds. Runs for the temperature repeat those without clustering, so they get another."""
TEMPERATURE_TRAINING = {"cifar10": {"learning_rate": 0.005, "momentum": 0.85, "weight_decay": 5e-4}}
"""Settings that the archive's own configuration of these runs changes. It sets nesterov too; we lack it."""


def config_of(run: FoundRun, num_rounds: int) -> RunConfig:
    """Return the run of the preset with this scenario and algorithm, with the archive's model and rounds."""
    values = _published()[run.scenario.name, run.algorithm].model_dump()
    values["model"] = MODELS[run.scenario.dataset]
    values["training"]["rounds"] = num_rounds
    values["seed"] = SEED
    if run.measures_temperature:
        values["seed"] = TEMPERATURE_SEED
        values["training"] |= TEMPERATURE_TRAINING.get(run.scenario.dataset, {})
    return RunConfig(**values)


def check_archived(grid: str, runs: Iterable[RunConfig]) -> None:
    """Check that a grid, which is imported into, has only archived runs.

    Raises:
        ConfigError: it has others.
    """
    own = sum(not is_archived(run) for run in runs)
    if own:
        raise ConfigError(f"grid {grid} has {own} runs that are not from the archive; choose another --name")


@cache
def _published() -> dict[tuple[str, str], RunConfig]:
    grid = load_grid(PRESET, {}, [], default_data_dir())
    return {(run.scenario, run.algorithm.name): run for run in grid.runs}
