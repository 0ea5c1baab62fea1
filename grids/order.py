"""In which order a grid's runs start."""

from collections.abc import Sequence

from engine.run_config import RunConfig

TRUNK = "bnc"
"""Never clusters: until another algorithm acts, its run is the same."""


def in_order(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Return the runs as they should start: data sets as declared, in each the longest runs first.

    A long run that starts last would keep a whole cluster waiting. Of a scenario and seed, the run that
    never clusters comes first: all others begin with its rounds.
    """
    datasets = list(dict.fromkeys(run.dataset for run in runs))
    scenarios = list(dict.fromkeys((run.scenario, run.seed) for run in runs))
    position = {scenario: index for index, scenario in enumerate(scenarios)}

    def key(run: RunConfig) -> tuple[object, ...]:
        work = run.training.rounds * run.training.local_epochs
        is_trunk = run.algorithm["name"] == TRUNK
        scenario = position[run.scenario, run.seed]
        return datasets.index(run.dataset), -work, -run.clients, scenario, not is_trunk

    return sorted(runs, key=key)
