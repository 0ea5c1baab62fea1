"""Checks that the parts of a configuration fit one another, and the data set."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings
from fedgrid.algorithms.contract.encoder import choose_kind as kind_of_encoder
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.dealing.kinds import find_kind
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import ONLY_PIXELS
from fedgrid.engine.federation.models.registry import MODELS, check_size
from fedgrid.engine.federation.uplink import privacy
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm
    from fedgrid.algorithms.updates.source import Layout


def check_parts(config: RunConfig, dataset: Dataset, data_dir: Path) -> None:
    """Check that the parts of a configuration fit one another, and its data set.

    Raises:
        ConfigError: two of them do not.
    """
    model_arguments = config.model, dataset.inputs, dataset.num_classes
    # Cheap checks come first: a model of a plugin is built and trained below, which imports torch.
    _check_kinds(config, dataset)
    _check_stop(config)
    check_size(config.model, dataset.inputs)
    if is_own_model(config.model):
        from fedgrid.engine.runtime.configuration.own_models import check_own_model  # Imports torch.

        check_own_model(*model_arguments, config.plugin_digests, config.training.stacked > 1)
    config.training.check_size(dataset.inputs.shape)
    check_algorithm(config, dataset)
    algorithm = build_algorithm(config)
    if (message := algorithm.message()) is not None:
        has_reference_images = config.split.reference_images is not None
        _check_encoder(message.encoder, config.dataset, has_reference_images, data_dir)
    problem = privacy.find_privacy_problem(
        config.uplink, config.privacy, algorithm.traits.averages_updates, *model_arguments
    )
    if problem is not None:
        raise ConfigError(problem, ("privacy" if config.privacy.central_noise else "uplink",))


def is_own_model(name: str) -> bool:
    """Check whether a model is a plugin's, or any module (`ModelEntry.module`)."""
    return ("model", name) not in active.BUILT_IN or MODELS[name].module is not None


def _check_encoder(
    settings: EncoderSettings | None, dataset: str, has_reference_images: bool, data_dir: Path
) -> None:
    """Check that the encoder that a run names fits its images.

    Raises:
        ConfigError: it does not.
    """
    if settings is None:
        return
    if (
        settings.noise
        and kind_of_encoder(settings, find_dataset(dataset, data_dir).inputs.shape) == "convolutional"
    ):
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
    own = find_dataset(dataset, data_dir)
    public = find_dataset(settings.public, data_dir)
    if public.name == own.name:
        raise ConfigError(
            f"{where}: that is the clients' own data set; take another one, or {REFERENCE} for the server's "
            "reference images",
            key,
        )
    kind = kind_of_encoder(settings, own.inputs.shape)
    # A convolutional encoder takes images of any height and width, but of one number of channels.
    matters = slice(0, 1) if kind == "convolutional" else slice(None)
    if public.inputs.shape[matters] != own.inputs.shape[matters]:
        sizes = ["x".join(map(str, shape)) for shape in (public.inputs.shape, own.inputs.shape)]
        needs = "as many channels" if kind == "convolutional" else "the same shape"
        raise ConfigError(
            f"{where}: its images are {sizes[0]}, those of {dataset} are {sizes[1]}, and a {kind} encoder "
            f"needs {needs}; take another public set, or encoder.federated",
            key,
        )


def _check_kinds(config: RunConfig, dataset: Dataset) -> None:
    """Check that all parts of a run take examples of the kind that its data set has.

    Raises:
        ConfigError: one does not.
    """
    training = config.training
    split = config.split.kind
    dataset.check_kind(f"model {config.model}", MODELS[config.model].takes, "model")
    dataset.check_kind(f"split {split}", find_kind(split).TAKES, "split", "kind")
    if training.augment:
        dataset.check_kind("training.augment", ONLY_PIXELS, "training", "augment")
    if training.normalise != "none":
        dataset.check_kind("training.normalise", ("pixels", "numbers"), "training", "normalise")
    check_takes(config.algorithm.name, build_algorithm(config), dataset)
    if find_kind(split).BY_CLASS:
        dataset.check_classes(f"split {split}", "split", "kind")
    if config.evaluation.probabilities:
        dataset.check_classes("evaluation.probabilities", "evaluation", "probabilities")
    if config.faults.label_flip or config.faults.label_noise:
        dataset.check_classes("faults of labels", "faults")


def _check_stop(config: RunConfig) -> None:
    """Check that a run can stop early, if it is to.

    Raises:
        ConfigError: it has no validation images, no round to stop in, or tests what only the last one can.
    """
    training = config.training
    evaluation = config.evaluation
    if training.stop_after is None:
        return
    given = f"training.stop_after = {training.stop_after}"
    key = ("training", "stop_after")
    # The first test sets the best score, and each later one can find that `stop_after` rounds have passed
    # since; rounds are only tested every so often.
    first = evaluation.every * (1 + -(-training.stop_after // evaluation.every))
    if config.split.scored_on != "validation":
        raise ConfigError(
            f"{given}: a run stops by its score on validation images, and this one has none; set "
            "split.scored_on=validation, or leave it out",
            key,
        )
    if first >= training.rounds:
        raise ConfigError(
            f"{given}: the first round to stop after would be {first}, and training.rounds = "
            f"{training.rounds}; take fewer, or more rounds",
            key,
        )
    if evaluation.local_server == "last":
        raise ConfigError(
            f"{given} with evaluation.local_server = last: a run does not know its last round before it; set "
            "evaluation.local_server to true or false",
            key,
        )


def check_takes(name: str, algorithm: "Algorithm", dataset: Dataset) -> None:
    """Check that the algorithm of a name takes examples of the kind that a data set has.

    Raises:
        ConfigError: it does not.
    """
    message = algorithm.message()
    if algorithm.traits.by_class or message is not None:
        dataset.check_classes(f"algorithm {name}", "algorithm")
    if message is not None:
        takes = message.takes if message.encoder is None else ONLY_PIXELS
        dataset.check_kind(f"algorithm {name}", takes, "algorithm")


def check_algorithm(config: RunConfig, dataset: Dataset) -> None:
    """Check that an algorithm can do what the rest of a configuration says.

    Raises:
        ConfigError: it cannot.
    """
    name = config.algorithm.name
    algorithm = build_algorithm(config)
    conditions = Conditions(
        num_clients=config.clients,
        has_reference_images=config.split.reference_images is not None,
        training=config.training.model_dump(),
        has_held_out=config.held_out > 0,
        model=config.model,
        describe_model=partial(_build_inputs_and_layout, config.model, dataset),
    )
    problem = algorithm.problem(conditions)
    local = getattr(algorithm.settings, "local", None)
    if problem is None and local is not None and local.rule().sees_features:
        problem = conditions.lacks_head()
    if problem is not None:
        raise ConfigError(f"algorithm {name}: {problem}", ("algorithm",))
    if config.training.stacked > 1 and not algorithm.traits.trains_plainly:
        raise ConfigError(f"algorithm {name}: {config.training.not_stacked}", ("training", "stacked"))


def _build_inputs_and_layout(model: str, dataset: Dataset) -> "tuple[str, tuple[int, ...], Layout]":
    """Build the kind and shape of the inputs, and the layout of the model, for algorithms that need them."""
    from fedgrid.engine.federation.models.flat_vectors import build_layout  # Imports torch.

    inputs = dataset.inputs
    return inputs.kind, inputs.shape, build_layout(model, inputs, dataset.num_classes)
