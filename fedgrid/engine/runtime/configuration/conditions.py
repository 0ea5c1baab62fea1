"""Whether the parts of a configuration fit one another, and the data set."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.engine.federation.dealing.kinds import kind_of
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import ONLY_PIXELS
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm
    from fedgrid.algorithms.updates.source import Layout
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.federation.data.dataset import Dataset


def check_kinds(config: "RunConfig", dataset: "Dataset") -> None:
    """Check that all parts of a run take what the examples of its data set are.

    Raises:
        ConfigError: one does not.
    """
    training = config.training
    split = config.split.kind
    dataset.check_kind(f"model {config.model}", MODELS[config.model].takes, "model")
    dataset.check_kind(f"split {split}", kind_of(split).TAKES, "split", "kind")
    if training.augment:
        dataset.check_kind("training.augment", ONLY_PIXELS, "training", "augment")
    if training.normalise != "none":
        dataset.check_kind("training.normalise", ("pixels", "numbers"), "training", "normalise")
    check_takes(config.algorithm.name, algorithm_of(config), dataset)
    if kind_of(split).BY_CLASS:
        dataset.check_classes(f"split {split}", "split", "kind")
    if config.evaluation.probabilities:
        dataset.check_classes("evaluation.probabilities", "evaluation", "probabilities")
    if config.faults.label_flip or config.faults.label_noise:
        dataset.check_classes("faults of labels", "faults")


def check_stop(config: "RunConfig") -> None:
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


def check_takes(name: str, algorithm: "Algorithm", dataset: "Dataset") -> None:
    """Check that the algorithm of a name takes what the examples of a data set are.

    Raises:
        ConfigError: it does not.
    """
    message = algorithm.message()
    if algorithm.traits.by_class or message is not None:
        dataset.check_classes(f"algorithm {name}", "algorithm")
    if message is not None:
        takes = message.takes if message.encoder is None else ONLY_PIXELS
        dataset.check_kind(f"algorithm {name}", takes, "algorithm")


def check_algorithm(config: "RunConfig", find_dataset: "Callable[[], Dataset]") -> None:
    """Check that an algorithm can do what the rest of a configuration says.

    `find_dataset` returns the run's data set, for algorithms that ask about its model.

    Raises:
        ConfigError: it cannot.
    """
    name = config.algorithm.name
    algorithm = algorithm_of(config)
    conditions = Conditions(
        num_clients=config.clients,
        has_reference_images=config.split.reference_images is not None,
        training=config.training.model_dump(),
        has_held_out=config.held_out > 0,
        model=config.model,
        of_model=partial(_inputs_and_layout, config.model, find_dataset),
    )
    problem = algorithm.problem(conditions)
    local = getattr(algorithm.settings, "local", None)
    if problem is None and local is not None and local.rule().sees_features:
        problem = conditions.lacks_head()
    if problem is not None:
        raise ConfigError(f"algorithm {name}: {problem}", ("algorithm",))
    if config.training.stacked > 1 and not algorithm.traits.trains_plainly:
        raise ConfigError(f"algorithm {name}: {config.training.not_stacked}", ("training", "stacked"))


def _inputs_and_layout(
    model: str, find_dataset: "Callable[[], Dataset]"
) -> "tuple[str, tuple[int, ...], Layout]":
    from fedgrid.engine.federation.models.flat_vectors import layout  # Imports torch.

    dataset = find_dataset()
    inputs = dataset.inputs
    return inputs.kind, inputs.shape, layout(model, inputs, dataset.num_classes)
