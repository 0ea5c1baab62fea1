"""From what a user gives of a run to its complete configuration: defaults, look-ups, checks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedgrid.algorithms.contract.base import Settings
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.registry import (
    ALGORITHMS,
    NAMES_IN_PAPERS,
    create_algorithm,
    dump_settings,
    explain_missing_name,
)
from fedgrid.engine.federation.configuration.run_config import PLUGINS_KEY, SETTABLE_KEYS, RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.names import is_content_name
from fedgrid.engine.federation.dealing.kinds import find_kind
from fedgrid.engine.federation.dealing.own import OwnKind
from fedgrid.engine.federation.errors import ConfigError, unknown_key_error, unknown_name_error
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.majority import number_classes
from fedgrid.engine.runtime.configuration.conditions import check_parts
from fedgrid.engine.runtime.configuration.sections import list_classes, list_fields
from fedgrid.engine.runtime.configuration.validation import explain_error, map_inner_keys
from fedgrid.engine.runtime.data.datasets import find_dataset, name_by_content
from fedgrid.engine.runtime.data.partition_files import load_partition, name_partition_file
from fedgrid.engine.runtime.plugins import active

INNER = map_inner_keys(RunConfig)
"""Keys of sections, each with its section in front."""
TRAINING_KEYS = {key: place for key, place in INNER.items() if place.startswith("training.")}
"""Keys of the training that an unknown setting of an algorithm may mean, as `learning_rate`."""
DEFAULTS: dict[str, Any] = {
    "dataset": "digits",
    "split": "nonoverlapping-balanced",
    "clients": 15,
    "seed": 0,
    "algorithm": "ocfl-hdbscan",
}
"""The run that a user gets who gives nothing."""


def complete_config(given: Mapping[str, Any], data_dir: Path) -> RunConfig:
    """Complete a configuration: `given`, with defaults of the data set, the algorithm and the rest.

    `algorithm` is a name, or a mapping with `name` and the settings to change.

    Raises:
        ConfigError: a key, name or value does not exist, or the images are too small for the model.
        DataError: the user's own data cannot be read.
    """
    for key in given:
        if key not in SETTABLE_KEYS:
            raise unknown_key_error(key, "", SETTABLE_KEYS, (key,), INNER)
    # The data set comes first: the defaults of split, model and training are its own.
    dataset = find_dataset(str(given.get("dataset", DEFAULTS["dataset"])), data_dir)
    values = {**DEFAULTS, "split": dataset.default_split, **given}
    filled = _fill_defaults(values, dataset, data_dir)
    if "clients" not in given and (number := _count_clients(filled["split"], dataset)) is not None:
        filled["clients"] = number
    config = RunConfig(**filled)
    # Only a complete configuration says which plugins a run needs; their digests enter its id.
    config = config.model_copy(update={PLUGINS_KEY: active.find_plugin_digests(config)})
    check_parts(config, dataset, data_dir)
    return config


def _fill_defaults(values: Mapping[str, Any], dataset: Dataset, data_dir: Path) -> dict[str, Any]:
    """Fill in the defaults of the data set and of the algorithm."""
    algorithm = name_by_content(_complete_algorithm(values["algorithm"]), data_dir)
    model = str(values.get("model", dataset.model))
    if not model:
        raise ConfigError(
            f"{dataset.name}: its {dataset.inputs} look like images; save them as uint8, 0 to 255, or name a "
            "model for numbers, as in model=mlp",
            ("model",),
        )
    if model not in MODELS:
        raise unknown_name_error("model", model, MODELS)
    if not isinstance(training := values.get("training", {}), Mapping):
        raise ConfigError(
            f"training = {training!r}: expected keys such as rounds, batch_size, learning_rate", ("training",)
        )
    # `local_steps` takes the place of epochs: more than one by default would contradict it.
    instead = {"local_epochs": 1} if training.get("local_steps") is not None else {}
    return {
        **values,
        "dataset": dataset.name,
        "training": {**dataset.training.model_dump(), **instead, **training},
        "model": model,
        "algorithm": algorithm,
        "split": _complete_split(values["split"], str(values["dataset"]), dataset),
    }


def _complete_algorithm(given: object) -> dict[str, Any]:
    """Complete the section of an algorithm."""
    choice = dict(given) if isinstance(given, Mapping) else {"name": given}
    if "name" not in choice:
        raise ConfigError(explain_missing_name(choice), ("algorithm",))
    name = str(choice.pop("name"))
    if name not in ALGORITHMS:
        raise unknown_name_error("algorithm", name, ALGORITHMS, NAMES_IN_PAPERS)
    return {"name": name, **complete_settings(name, choice)}


def complete_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the settings of an algorithm as a run writes them: those given, and its defaults.

    Raises:
        ConfigError: there is no such setting, or a value is impossible.
    """
    usual = ALGORITHMS[name].settings
    given = {key: _name_choice(usual, key, value) for key, value in given.items()}
    try:
        return dump_settings(name, create_algorithm(name, given).settings)
    except ValidationError as error:
        raise ConfigError(f"algorithm {name}: {explain_error(error, usual, TRAINING_KEYS, given)}") from error
    except ValueError as error:
        raise ConfigError(f"algorithm {name}: {error}") from error


def _name_choice(settings: Settings, key: str, given: object) -> object:
    """Complete a choice that is given without its name: the default one, with these settings changed."""
    default = getattr(settings, key, None)
    if not isinstance(default, Section) or not isinstance(given, Mapping) or "name" in given:
        return given
    is_choice = len(list_classes(list_fields(settings)[key].annotation)) > 1
    return {**default.model_dump(), **given} if is_choice else given


def _complete_split(given: object, dataset_given: str, dataset: Dataset) -> object:
    """Complete the section of the split; for a stored run it has numbers of classes in place of names.

    Raises:
        ConfigError: no kind has that name, or there is no such file or class, or a key of a plugin's kind is
            impossible.
        DataError: the file cannot be read.
    """
    split = {"kind": given} if isinstance(given, str) else given
    if not isinstance(split, Mapping):
        return given
    name = str(split.get("kind", dataset.default_split))
    kind = find_kind(name)
    sizes = split.get("sizes")
    # `sizes` has one size for each cluster, and so their number.
    counted = {"num_clusters": len(sizes)} if isinstance(sizes, list | tuple) and sizes else {}
    complete = {"kind": name, **kind.DEFAULTS, **counted, **split}
    if isinstance(kind, OwnKind):
        try:
            complete |= kind.parse_options(complete)
        except ValidationError as error:
            problem = explain_error(error, kind.rule)
            raise ConfigError(f"split {name}: {problem}", ("split", *problem.key)) from error
    if (path := _find_path(complete)) is not None:
        complete["path"] = name_partition_file(path)
    # A data set that is named by its content is that of a stored run, whose classes are numbers already.
    if is_content_name(dataset_given):
        return complete
    return number_classes(complete, dataset.name, dataset.class_names)


def _count_clients(split: object, dataset: Dataset) -> int | None:
    """Count the clients of a completed section of kind file; None for other kinds.

    They are in the file at its path, or in the data set.

    Raises:
        DataError: the file is not as it must be.
    """
    if not isinstance(split, Mapping) or split["kind"] != FILE:
        return None
    assigned = dataset.assigned if (path := _find_path(split)) is None else load_partition(path)
    return None if assigned is None else assigned.num_clients


def _find_path(split: object) -> str | None:
    """Find the path in a section of kind file, None in any other."""
    path = split.get("path") if isinstance(split, Mapping) and split.get("kind") == FILE else None
    return path if isinstance(path, str) else None
