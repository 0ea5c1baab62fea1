"""From what a user gives of a run to its complete configuration: defaults, look-ups, checks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings
from fedgrid.algorithms.contract.encoder import kind_of as kind_of_encoder
from fedgrid.algorithms.registry import ALGORITHMS, ALSO_CALLED, create, nameless, written
from fedgrid.engine.federation.configuration.run_config import PLUGINS, SETTABLE, RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.errors import ConfigError, unknown, unknown_key
from fedgrid.engine.federation.models.registry import MODELS, check_size
from fedgrid.engine.federation.uplink import privacy
from fedgrid.engine.runtime.configuration.conditions import (
    check_algorithm,
    check_kinds,
    check_stop,
)
from fedgrid.engine.runtime.configuration.split_section import clients_in, complete_split
from fedgrid.engine.runtime.configuration.validation import explain, inner_keys
from fedgrid.engine.runtime.data.datasets import find, name_by_content
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of

INNER = inner_keys(RunConfig)
TRAINING_KEYS = {key: place for key, place in INNER.items() if place.startswith("training.")}
"""Those that may be meant by an unknown setting of an algorithm, as `learning_rate`."""
DEFAULTS: dict[str, Any] = {
    **{"dataset": "digits", "split": "nonoverlapping-balanced", "clients": 15, "seed": 0},
    "algorithm": "ocfl-hdbscan",
}


def complete(given: Mapping[str, Any], data_dir: Path) -> RunConfig:
    """Return a full configuration: `given`, with defaults of the data set, the algorithm and the rest.

    `algorithm` is a name, or a mapping with `name` and the settings to change.

    Raises:
        ConfigError: a key, name or value does not exist, or the images are too small for the model.
        DataError: the user's own data cannot be read.
    """
    for key in given:
        if key not in SETTABLE:
            raise unknown_key(key, "", SETTABLE, (key,), INNER)
    dataset = find(str(given.get("dataset", DEFAULTS["dataset"])), data_dir)
    values = {**DEFAULTS, "split": dataset.split, **given}
    filled = _fill_defaults(values, dataset, data_dir)
    if "clients" not in given and (number := clients_in(filled["split"], dataset)) is not None:
        filled["clients"] = number
    config = RunConfig(**filled)
    config = config.model_copy(update={PLUGINS: active.plugin_digests(config)})
    _check(config, dataset, data_dir)
    return config


def _fill_defaults(values: Mapping[str, Any], dataset: Dataset, data_dir: Path) -> dict[str, Any]:
    algorithm = name_by_content(_algorithm(values["algorithm"]), data_dir)
    model = str(values.get("model", dataset.model))
    if not model:
        raise ConfigError(
            f"{dataset.name}: its {dataset.inputs} look like images; save them as uint8, 0 to 255, or name a "
            "model for numbers, as in model=mlp",
            ("model",),
        )
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    if not isinstance(training := values.get("training", {}), Mapping):
        raise ConfigError(
            f"training = {training!r}: expected keys such as rounds, batch_size, learning_rate", ("training",)
        )
    instead = {"local_epochs": 1} if training.get("local_steps") is not None else {}
    return {
        **values,
        "dataset": dataset.name,
        "training": {**dataset.training.model_dump(), **instead, **training},
        "model": model,
        "algorithm": algorithm,
        "split": complete_split(values["split"], str(values["dataset"]), dataset),
    }


def _algorithm(given: object) -> dict[str, Any]:
    choice = dict(given) if isinstance(given, Mapping) else {"name": given}
    if "name" not in choice:
        raise ConfigError(nameless(choice), ("algorithm",))
    name = str(choice.pop("name"))
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS, ALSO_CALLED)
    try:
        settings = create(name, choice).settings
    except ValidationError as error:
        raise ConfigError(
            f"algorithm {name}: {explain(error, ALGORITHMS[name].settings, TRAINING_KEYS)}"
        ) from error
    except ValueError as error:
        raise ConfigError(f"algorithm {name}: {error}") from error
    return {"name": name, **written(name, settings)}


def _check(config: RunConfig, dataset: Dataset, data_dir: Path) -> None:
    """Check what parts of a configuration say of one another."""
    of_model = config.model, dataset.inputs, dataset.num_classes
    check_kinds(config, dataset)
    check_stop(config)
    check_size(config.model, dataset.inputs)
    if is_own_model(config.model):
        from fedgrid.engine.runtime.configuration.own_models import check_own_model  # Imports torch.

        check_own_model(*of_model, config.plugin_digests, config.training.stacked > 1)
    config.training.check_size(dataset.inputs.shape)
    check_algorithm(config, lambda: dataset)
    algorithm = algorithm_of(config)
    if (message := algorithm.message()) is not None:
        has_reference_images = config.split.reference_images is not None
        _check_encoder(message.encoder, config.dataset, has_reference_images, data_dir)
    problem = privacy.problem(config.uplink, config.privacy, algorithm.traits.averages_updates, *of_model)
    if problem is not None:
        raise ConfigError(problem, ("privacy" if config.privacy.central_noise else "uplink",))


def is_own_model(name: str) -> bool:
    """Return whether a model is a plugin's, or any module (`ModelEntry.module`)."""
    return ("model", name) not in active.BUILT_IN or MODELS[name].module is not None


def _check_encoder(
    settings: EncoderSettings | None, dataset: str, has_reference_images: bool, data_dir: Path
) -> None:
    """Check that the encoder that a run names fits its images."""
    if settings is None:
        return
    if settings.noise and kind_of_encoder(settings, find(dataset, data_dir).inputs.shape) == "convolutional":
        raise ConfigError(
            f"encoder.noise = {settings.noise:g}: the convolutional encoder has BatchNorm buffers, which no "
            "clip bounds and no noise covers; take encoder.name = dense",
            ("algorithm", "encoder", "noise"),
        )
    if settings.public is None:
        return
    where = f"encoder.public = {settings.public}"
    key = ("algorithm", "encoder", "public")
    if settings.public == REFERENCE:
        if not has_reference_images:
            raise ConfigError(f"{where}: the server has none; set split.reference_images", key)
        return
    own = find(dataset, data_dir)
    public = find(settings.public, data_dir)
    if public.name == own.name:
        raise ConfigError(
            f"{where}: that is the clients' own data set; take another one, or {REFERENCE} for the server's "
            "reference images",
            key,
        )
    kind = kind_of_encoder(settings, own.inputs.shape)
    matters = slice(0, 1) if kind == "convolutional" else slice(None)
    if public.inputs.shape[matters] != own.inputs.shape[matters]:
        sizes = ["x".join(map(str, shape)) for shape in (public.inputs.shape, own.inputs.shape)]
        needs = "as many channels" if kind == "convolutional" else "the same shape"
        raise ConfigError(
            f"{where}: its images are {sizes[0]}, those of {dataset} are {sizes[1]}, and a {kind} encoder "
            f"needs {needs}; take another public set, or encoder.federated",
            key,
        )
