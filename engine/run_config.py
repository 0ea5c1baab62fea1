"""The complete configuration of a run; the hash of its canonical JSON is the run's id."""

import json
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from fedgrid.algorithms.contract.base import Algorithm, Conditions
from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.algorithms.registry import ALGORITHMS, ALSO_CALLED, create, nameless
from fedgrid.algorithms.written import written
from fedgrid.engine.data import own_images
from fedgrid.engine.data.datasets import find, named_by_content
from fedgrid.engine.data.resizing import short_name
from fedgrid.engine.disturbances.drift import Move, problem_with
from fedgrid.engine.disturbances.faults import FAULT, Faults
from fedgrid.engine.encoders.checks import check_encoder
from fedgrid.engine.errors import ConfigError, unknown, unknown_key
from fedgrid.engine.format import FORMAT
from fedgrid.engine.models.registry import MODELS, check_size
from fedgrid.engine.partition.kinds import kind_of
from fedgrid.engine.partition.majority import with_class_numbers
from fedgrid.engine.partition.scenarios import Scenario, scenario_of, seed_text
from fedgrid.engine.partition.settings import Split
from fedgrid.engine.plugins import active
from fedgrid.engine.seeds import root_seed
from fedgrid.engine.training.settings import Evaluation, Training
from fedgrid.engine.uplink import privacy
from fedgrid.engine.uplink.accountant import EPSILON
from fedgrid.engine.uplink.privacy import Privacy
from fedgrid.engine.uplink.steps import Uplink
from fedgrid.engine.validation import explain, inner_keys

PLUGINS = "plugin_digests"
"""The key of a run that `complete` fills in; no file may set it."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class RunConfig(Section):
    """Everything that a run's numbers depend on, and nothing else (not where it runs, nor how fast)."""

    dataset: str
    """One of `fedgrid data`, or the user's own images by their content (`engine.data.own_images`)."""
    clients: PositiveInt
    algorithm: dict[str, Any]
    """`name`, one of `fedgrid algorithms`, and all of its settings."""
    seed: Annotated[int, Field(ge=0, strict=True)]
    model: str
    """One of `fedgrid models`."""
    training: Training
    split: Split = Split()
    evaluation: Evaluation = Evaluation()
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the present clients that is sampled in each round; at least one client."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a sampled client sends no reply (injected faults)."""
    joins: dict[Annotated[int, Field(ge=0)], PositiveInt] = {}
    """Newcomers: client -> the first round, from 1, in which it is present."""
    plugin_digests: tuple[Digest, ...] = ()
    """Of the plugins that the algorithm, its clusterer and the model come from, sorted. Their code is part of
    what the run's numbers depend on, so a changed plugin makes another run."""

    uplink: Uplink = ()
    """What happens to an update between client and server, in this order, as in `[{clip: 1.0}]`."""
    privacy: Privacy = Privacy()
    """What an epsilon means, and the server's noise."""

    weights: Literal["none", "images", "batches"] = "none"
    """Weight of a client in the server's means: `none`, all are equal, as in OCFL; the `images` it trains on,
    as in FedAvg; the `batches` it trains on, one a local step."""

    faults: Faults = Faults()
    """Clients that attack the training, as in `{label_flip: [3], sign_flip: [7], scale: {9: 10}}`."""

    drift: dict[Annotated[int, Field(ge=0)], Move] = {}
    """Clients whose data move to another hidden group, as in `{3: {round: 25, to: 2}}`."""

    omitted_defaults = ("participation", "dropout", "joins", "uplink", "privacy", PLUGINS, "faults", "drift")

    @field_validator("joins")
    @classmethod
    def _joins_are_possible(cls, joins: dict[int, int], before: ValidationInfo) -> dict[int, int]:
        if not {"clients", "training"} <= set(before.data):  # They are refused already.
            return joins
        clients, rounds = before.data["clients"], before.data["training"].rounds
        for client, number in joins.items():
            if client >= clients:
                raise ValueError(f"client {client} does not exist, the last one is {clients - 1}")
            if number > rounds:
                raise ValueError(f"client {client} joins in round {number}, but the last one is {rounds}")
        if len(joins) == clients and min(joins.values()) > 1:
            raise ValueError("no client is present in round 1")
        return joins

    @field_validator("faults")
    @classmethod
    def _faults_are_possible(cls, faults: Faults, before: ValidationInfo) -> Faults:
        if "clients" in before.data and (problem := faults.problem(before.data["clients"])):
            raise ValueError(problem)
        return faults

    @field_validator("drift")
    @classmethod
    def _drift_is_possible(cls, drift: dict[int, Move], before: ValidationInfo) -> dict[int, Move]:
        found = before.data
        if drift and {"dataset", "clients", "split", "training", "joins"} <= set(found):
            scenario = scenario_of(found["dataset"], found["split"].kind, found["clients"])
            problem = problem_with(drift, scenario, found["split"], found["training"].rounds, found["joins"])
            if problem:
                raise ValueError(problem)
        return drift

    @cached_property
    def run_id(self) -> str:
        """Id of this configuration, and of what its numbers mean: twelve hexadecimal digits."""
        return id_of(canonical(self.written()))

    @property
    def scenario(self) -> str:
        """Data set, number of clients and split, as in `mnist-15-overlapping-imbalanced`."""
        return f"{self.short_dataset}-{self.clients}-{self.split.kind}"

    @property
    def split_scenario(self) -> Scenario:
        """The scenario as the kinds of scenarios know it."""
        return scenario_of(self.dataset, self.split.kind, self.clients)

    @property
    def short_dataset(self) -> str:
        """Name of the data set without a path: `mnist`, `folder_cats`; two folders may have the same."""
        return short_name(self.dataset)

    @property
    def own_images(self) -> tuple[str, ...]:
        """What the user's own images are called that the run needs; empty without any."""
        return tuple(own_images.names_in({"dataset": self.dataset, "algorithm": self.algorithm}))

    @property
    def root_seed(self) -> int:
        """Seed of every random number of the run but the split's: one for each scenario and seed.

        Neither the algorithm nor any other setting counts, and of the user's own images only the name of the
        folder or file: a run is the same wherever they lie.
        """
        text = f"{self.short_dataset}-{self.clients}-{seed_text(self.split.kind)}"
        return root_seed(text, self.seed)

    @property
    def name(self) -> str:
        """Readable name: `mnist-15-overlapping-imbalanced-ocfl_hdbscan-s0`."""
        return f"{self.scenario}-{self.algorithm['name'].replace('-', '_')}-s{self.seed}"

    @property
    def shared_prefix(self) -> str:
        """Name shared by all runs that differ only in the algorithm, the weights and the number of rounds.

        Such runs have rounds in common: `mnist-15-overlapping-imbalanced-s0-1f3870be274f`.
        """
        values = self.written()
        del values["algorithm"], values["weights"], values["training"]["rounds"]
        return f"{self.scenario}-s{self.seed}-{id_of(canonical(values))}"

    @property
    def own_columns(self) -> frozenset[str]:
        """Columns that not all records have: the algorithm's own, `fault` under attack, `epsilon` with noise.

        None of a plugin's that is not loaded.
        """
        name, settings = _name_and_settings(self.algorithm)
        own = create(name, settings).traits.columns if name in ALGORITHMS else frozenset()
        attacked = {FAULT} if self.faults.clients else set()
        private = {EPSILON} if privacy.is_private(self.uplink, self.privacy) else set()
        return own | attacked | private

    def written(self) -> dict[str, Any]:
        """Return the configuration and its format, as in the file `config.json`."""
        return {"format": FORMAT, **self.model_dump(mode="json")}

    def canonical_json(self) -> str:
        """Return the configuration as JSON with sorted keys and no spaces."""
        return canonical(self.model_dump(mode="json"))

    def make_algorithm(self) -> Algorithm:
        """Return the configured algorithm; activates the run's plugins, in place of their other versions.

        Raises:
            ConfigError: if a plugin of the run is not known to this process.
        """
        active.activate(self.plugin_digests)
        return create(*_name_and_settings(self.algorithm))


def _name_and_settings(algorithm: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return algorithm["name"], {key: value for key, value in algorithm.items() if key != "name"}


def canonical(values: Mapping[str, Any]) -> str:
    """Return values as JSON with sorted keys and no spaces."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def id_of(text: str) -> str:
    """Return the id of the configuration whose `written` values are `text`, as `canonical` has them."""
    return sha256(text.encode()).hexdigest()[:12]


SETTABLE = tuple(key for key in RunConfig.model_fields if key != PLUGINS)
"""Keys that a file or an option may set."""
INNER = inner_keys(RunConfig)
DEFAULTS: dict[str, Any] = {
    **{"dataset": "digits", "split": "nonoverlapping-balanced", "clients": 15, "seed": 0},
    "algorithm": "ocfl-hdbscan",
}


def complete(given: Mapping[str, Any], data_dir: Path) -> RunConfig:
    """Return a full configuration: `given`, with defaults of the data set, the algorithm and the rest.

    `algorithm` is a name, or a mapping with `name` and the settings to change.

    Raises:
        ConfigError: a key, name or value does not exist, or the images are too small for the model.
        DataError: a `folder:` or `npz:` data set cannot be read.
    """
    for key in given:
        if key not in SETTABLE:
            raise unknown_key(key, "", SETTABLE, (key,), INNER)
    values = {**DEFAULTS, **given}
    dataset = find(str(values["dataset"]), data_dir)
    training = values.get("training", {})
    if not isinstance(training, Mapping):
        raise ConfigError(
            f"training = {training!r}: expected keys such as rounds, batch_size, learning_rate", ("training",)
        )
    values["dataset"] = dataset.name
    values["training"] = {**dataset.training.model_dump(), **training}
    values["model"] = str(values.get("model", dataset.model))
    if values["model"] not in MODELS:
        raise unknown("model", values["model"], MODELS)
    values["algorithm"] = named_by_content(_complete_algorithm(values["algorithm"]), data_dir)
    values[PLUGINS] = active.plugin_digests(values["algorithm"], values["model"])
    if isinstance(split := values["split"], str):
        split = {"kind": split}
    if isinstance(split, Mapping):
        split = {**kind_of(str(split.get("kind", DEFAULTS["split"]))).DEFAULTS, **split}
        values["split"] = with_class_numbers(split, dataset.name, dataset.class_names)
    try:
        config = RunConfig(**values)
    except ValidationError as error:
        raise explain(error, RunConfig) from error
    check_size(config.model, dataset.shape)
    config.training.check_size(dataset.shape)
    _check_algorithm(config, data_dir)
    of_model = config.model, dataset.shape, dataset.num_classes
    problem = privacy.problem(config.uplink, config.privacy, config.make_algorithm(), *of_model)
    if problem is not None:
        raise ConfigError(problem, ("privacy" if config.privacy.central_noise else "uplink",))
    return config


def _check_algorithm(config: RunConfig, data_dir: Path) -> None:
    """Check that the algorithm's settings fit the federation, and its encoder the images.

    Raises:
        ConfigError: otherwise.
    """
    name, settings = _name_and_settings(config.algorithm)
    algorithm = create(name, settings)
    conditions = Conditions(
        num_clients=config.clients,
        has_reference_images=config.split.reference_images is not None,
        training=config.training.model_dump(),
    )
    problem = algorithm.problem(conditions)
    if problem is not None:
        raise ConfigError(f"algorithm {name}: {problem}", ("algorithm",))
    if config.training.stacked > 1 and not algorithm.traits.trains_plainly:
        raise ConfigError(f"algorithm {name}: {config.training.not_stacked}", ("training", "stacked"))
    if (message := algorithm.message()) is not None:
        check_encoder(message.encoder, config.dataset, conditions.has_reference_images, data_dir)


def _complete_algorithm(given: object) -> dict[str, Any]:
    choice = dict(given) if isinstance(given, Mapping) else {"name": given}
    if "name" not in choice:
        raise ConfigError(nameless(choice), ("algorithm",))
    name = str(choice.pop("name"))
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS, ALSO_CALLED)
    try:
        settings = create(name, choice).settings
    except ValidationError as error:
        raise ConfigError(f"algorithm {name}: {explain(error, ALGORITHMS[name].settings)}") from error
    except ValueError as error:
        raise ConfigError(f"algorithm {name}: {error}") from error
    return {"name": name, **written(name, settings)}
