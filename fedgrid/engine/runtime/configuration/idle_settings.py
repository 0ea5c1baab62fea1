"""Keys of a configuration that cannot act.

Without a check the user would get another run than meant, or two ids would have the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fedgrid.algorithms.contract.section import find_first_rounds, find_idle_keys
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.dealing.kinds import find_kind, list_idle_options, no_effect_error
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition import ocfl
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.uplink.privacy import is_private
from fedgrid.engine.runtime.data.partition_files import add_partition_facts
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.data.dataset import Dataset


def find_idle_settings(config: RunConfig) -> dict[str, str]:
    """Find settings of the algorithm that cannot act within the run's rounds, with a sentence about each.

    Settings of a plugin's algorithm that is not loaded are left out.
    """
    name = config.algorithm.name
    settings = config.algorithm.settings
    if name not in ALGORITHMS:
        return {}
    rounds = config.training.rounds
    first_by_key = find_first_rounds(type(ALGORITHMS[name].settings), settings)
    return {
        key: f"algorithm {name}: {key} {settings[key]} acts from round {first} on, "
        f"and the last round is {rounds}"
        for key, first in first_by_key.items()
        if first > rounds
    }


def check_idle(config: RunConfig, given: Mapping[str, Any], searched: Collection[str] = ()) -> None:
    """Check that the defaults of a run fit together; what a user has typed is taken as meant.

    Settings that are `searched` do not keep their defaults.

    Raises:
        ConfigError: a setting at its default cannot act within the data set's own number of rounds.
    """
    algorithm = given.get("algorithm")
    training = given.get("training", {})
    typed = algorithm if isinstance(algorithm, Mapping) else {}
    if "rounds" in training:
        return
    for key, sentence in find_idle_settings(config).items():
        if key not in typed and key not in searched:
            raise ConfigError(
                f"{sentence}, both by default; set algorithm.{key}, or training.rounds", ("algorithm",)
            )


def check_keys(config: RunConfig, dataset: Dataset, searched: Collection[str] = ()) -> None:
    """Check that every key of a new run that is not at its default changes what is trained or recorded.

    Settings of an algorithm that are `searched` may have values with which others do not act. Stored runs are
    not checked: earlier versions took such keys, and their ids stay.

    Raises:
        ConfigError: one has no effect; with its key, and with what it would act.
    """
    _check_split(config, dataset)
    for key, words in _find_idle_keys(config, dataset).items():
        section, name = key.split(".")
        if section == "algorithm" and name in searched:
            continue
        where = f" with algorithm {config.algorithm.name}" if section == "algorithm" else ""
        problem = f"{key} has no effect{where}, only with {words}; leave it out"
        raise ConfigError(problem, (section, name))


def _check_split(config: RunConfig, dataset: Dataset) -> None:
    """Check that every key of the split acts, or is at the kind's default; `kinds.check_split` refuses less.

    Raises:
        ConfigError: one has no effect.
    """
    split = config.split
    kind = find_kind(config.split.kind)
    facts = add_partition_facts(dataset, config.split)
    # Kinds of split have defaults of their own, which a configuration always writes out.
    usual = {name: field.get_default() for name, field in Split.model_fields.items()} | dict(kind.DEFAULTS)
    changed = {name: getattr(split, name) for name in usual if getattr(split, name) != usual[name]}
    for option in list_idle_options(split.kind):
        if option in changed:
            raise no_effect_error(option, changed[option], split.kind)
    idle: dict[str, str] = {}
    if kind is ocfl.IMBALANCED and split.proportions == "published":
        idle["alpha"] = "with split.proportions = drawn"
    if split.kind == NATURAL and config.clients <= (facts.num_groups or 0):
        idle["alpha"] = f"with more clients than the {facts.num_groups} groups, which then share a group"
    assigned = facts.assigned if split.kind == FILE else None
    leaks = (
        kind.IMAGES_ARE_SHARED if assigned is None else assigned.has_shared_examples or assigned.num_leaked
    )
    if not leaks:
        idle["test_leakage"] = "where several clients hold the same examples"
    for option in filter(changed.__contains__, idle):
        problem = f"split.{option} = {changed[option]} has no effect here, only {idle[option]}; leave it out"
        raise ConfigError(problem, ("split", option))


def _find_idle_keys(config: RunConfig, dataset: Dataset) -> dict[str, str]:
    """Find the keys that have no effect, with what they would act."""
    settings = build_algorithm(config).settings
    usual = ALGORITHMS[config.algorithm.name].settings
    idle = {f"algorithm.{key}": words for key, words in find_idle_keys(settings, usual).items()}
    if getattr(settings, "sample", "all") == "cluster" and config.participation == 1:
        idle["algorithm.sample"] = "a participation below 1"
    meets_again = config.joins or config.held_out or getattr(settings, "recluster_every", None)
    if not getattr(settings, "update_centroids", True) and not meets_again:
        idle["algorithm.update_centroids"] = "recluster_every, joins or held_out"
    if config.training.buffers != "mean" and not _has_buffers(config.model, dataset):
        idle["training.buffers"] = "a model that has BatchNorm"
    if not is_private(config.uplink, config.privacy):
        changed = config.privacy.model_dump(exclude_defaults=True)
        idle |= dict.fromkeys(map("privacy.{}".format, changed), "noise in the uplink or central_noise")
    return idle


def _has_buffers(model: str, dataset: Dataset) -> bool:
    """Check whether a model has buffers, as BatchNorm does."""
    from fedgrid.engine.federation.models.flat_vectors import build_layout  # Imports torch.

    made = build_layout(model, dataset.inputs, dataset.num_classes)
    return made.size > made.num_parameters


def format_idle_lines(runs: Iterable[RunConfig]) -> list[str]:
    """Format a line for each setting that cannot act, with the number of runs."""
    counts = Counter(sentence for run in runs for sentence in find_idle_settings(run).values())
    return [f"{sentence} ({count} {'run' if count == 1 else 'runs'})" for sentence, count in counts.items()]
