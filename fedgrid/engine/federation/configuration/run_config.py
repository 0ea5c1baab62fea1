"""The complete configuration of a run; the hash of its canonical JSON is the run's id."""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from math import floor
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from fedgrid.algorithms.contract.base import Traits
from fedgrid.algorithms.contract.section import PositiveInt, Section
from fedgrid.engine.federation.configuration.faults import Faults
from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.dealing.kinds import BUILT_IN, KINDS, kind_of
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.scenarios import CENTRALISED, Scenario, scenario_of, seed_text
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.record_names import EPSILON, FAULT, GLOBAL_MODEL, GROUP, PROBABILITIES, TARGET
from fedgrid.engine.federation.seeds import root_seed
from fedgrid.engine.federation.training.settings import Evaluation, Training
from fedgrid.engine.federation.uplink.privacy import Privacy, is_private
from fedgrid.engine.federation.uplink.steps import Uplink

PLUGINS = "plugin_digests"
"""The key of a run that `complete` fills in; no file may set it."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class AlgorithmSection(Section):
    """The section `algorithm` of a run's configuration: a name, and as further keys all settings of that one.

    They are as JSON has them, because a stored run may be of a plugin that is not loaded;
    `runtime.plugins.algorithm_of` makes the algorithm.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    """One of `fedgrid list algorithms`."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return self.model_extra or {}


class Move(Section):
    """A client whose data change from one hidden group to another, in the section `drift`.

    From its round on, it trains and is tested on images of its new group, and the truth says so. Where groups
    change images or labels (rotated, rolled, flipped, ...) it keeps its images, changed as in the new group.
    Where groups are sets of classes (overlapping, nonoverlapping) it draws new images from the new group's
    classes, by the same rule as its first ones. Other kinds of splits have no images to draw again.

    Source of the idea: Prigent et al., section VII, and Bettinelli et al., section VI, name it as future
    work; how data change is ours.
    """

    round: Annotated[int, Field(ge=2, strict=True)]
    """The first round, from 2, in which it holds images of the new group."""
    to: Annotated[int, Field(ge=0, strict=True)]
    """The new hidden group, from 0, as in the column `true_cluster` of the records."""


class RunConfig(Section):
    """Everything that a run's numbers depend on, and nothing else (not where it runs, nor how fast).

    It is made of all keys without a default; `fedgrid.run` takes a dict too, and adds what that leaves out.
    """

    dataset: str
    """One of `fedgrid data`, or the user's own images by their content (`runtime.data.own_images`)."""
    clients: PositiveInt
    """Number of federated clients."""
    algorithm: AlgorithmSection
    """`name`, one of `fedgrid list algorithms`, and all of its settings."""
    seed: Annotated[int, Field(ge=0, strict=True)]
    """Of everything random in the run."""
    model: str
    """One of `fedgrid list models`."""
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
    """Of the plugins that the algorithm, its parts, the model and the kind of split come from, sorted. Their
    code is part of what the run's numbers depend on, so a changed plugin makes another run."""

    uplink: Uplink = ()
    """What happens to an update between client and server, in this order, as in `[{clip: 1.0}]`."""
    privacy: Privacy = Privacy()
    """What an epsilon means, and the server's noise."""

    weights: Literal["none", "images", "batches"] = "none"
    """Weight of a client in the server's means: `none`, all are equal, as in OCFL; the `images` it trains on,
    as in FedAvg; the `batches` it trains on, one a local step. Of every mean of clients that a server takes,
    and of the mean norm in SCL's test; distances have no weights."""

    faults: Faults = Faults()
    """Clients that attack the training, as in `{label_flip: [3], sign_flip: [7], scale: {9: 10}}`."""

    drift: dict[Annotated[int, Field(ge=0)], Move] = {}
    """Clients whose data move to another hidden group, as in `{3: {round: 25, to: 2}}`."""

    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the clients, at least one, that never train in the federation. After the last round each is
    placed and tested as a newcomer."""

    omitted_defaults = (
        "participation",
        "dropout",
        "joins",
        "uplink",
        "privacy",
        PLUGINS,
        "faults",
        "drift",
        "held_out",
    )

    @field_validator("split")
    @classmethod
    def _further_keys_are_of_a_plugin(cls, split: Split) -> Split:
        if split.kind in BUILT_IN:
            Section.model_validate(split.model_extra)  # Which has no key.
        return split

    @field_validator("joins")
    @classmethod
    def _joins_are_possible(cls, joins: dict[int, int], before: ValidationInfo) -> dict[int, int]:
        if not {"clients", "training"} <= set(before.data):  # They are refused already.
            return joins
        clients = before.data["clients"]
        rounds = before.data["training"].rounds
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
        given = before.data
        if drift and {"dataset", "clients", "split", "training", "joins"} <= set(given):
            scenario = scenario_of(given["dataset"], given["split"].kind, given["clients"])
            problem = _problem_with_drift(
                drift, scenario, given["split"], given["training"].rounds, given["joins"]
            )
            if problem:
                raise ValueError(problem)
        return drift

    @field_validator("held_out")
    @classmethod
    def _others_can_train(cls, share: float, before: ValidationInfo) -> float:
        given = before.data
        if share and {"clients", "joins", "uplink", "privacy", "faults", "drift"} <= set(given):
            others = never_held_out(given["joins"], given["faults"], given["drift"])
            if problem := _problem_with_held_out(share, given["clients"], len(others)):
                raise ValueError(problem)
            if is_private(given["uplink"], given["privacy"]):
                raise ValueError("no epsilon counts what a held-out client sends; leave it out, or the noise")
        return share

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
        return names.short_name(self.dataset)

    @property
    def own_images(self) -> tuple[str, ...]:
        """What the user's own images and file of a split are called that the run needs; empty without any."""
        given = {"dataset": self.dataset, "algorithm": self.algorithm.settings, "split": self.split.path}
        return tuple(names.names_in(given))

    @property
    def root_seed(self) -> int:
        """Seed of every random number of the run but the split's: one for each scenario and seed.

        Neither the algorithm nor any other setting counts, and of the user's own images only the name of the
        folder or file: a run is the same wherever they lie.
        """
        return root_seed(seed_text(self.short_dataset, self.clients, self.split.kind), self.seed)

    @property
    def name(self) -> str:
        """Readable name: `mnist-15-overlapping-imbalanced-ocfl_hdbscan-s0`."""
        return f"{self.scenario}-{self.algorithm.name.replace('-', '_')}-s{self.seed}"

    @property
    def shared_prefix(self) -> str:
        """Name shared by all runs that differ only in the algorithm, the weights and how long they are.

        Such runs have rounds in common: `mnist-15-overlapping-imbalanced-s0-1f3870be274f`.
        """
        values = self.written()
        del values["algorithm"], values["weights"], values["training"]["rounds"]
        values["training"].pop("stop_after", None)
        return f"{self.scenario}-s{self.seed}-{id_of(canonical(values))}"

    def columns(self, traits: Traits | None) -> frozenset[str]:
        """Return the columns of the run's records that not all records have.

        They are the algorithm's own, `fault` under attack, `epsilon` with noise, `centralised` for its norms,
        `group` where the data set, or a file, names the groups, those of what `evaluation` asks for, and
        `target` where numbers are predicted.
        `traits` are the algorithm's, None if it is not known here.
        """
        own = traits.columns if traits is not None else frozenset()
        attacked = {FAULT} if self.faults.clients else set()
        private = {EPSILON} if is_private(self.uplink, self.privacy) else set()
        centralised = {CENTRALISED} if self.split.kind == CENTRALISED else set()
        named = {GROUP} if self.split.kind in (NATURAL, FILE) else set()
        tested = {word for word in (GLOBAL_MODEL, PROBABILITIES) if getattr(self.evaluation, word)}
        numbers = {TARGET} if names.has_target(self.dataset) else set()
        return own | attacked | private | centralised | named | tested | numbers

    def with_values(self, **values: Any) -> Self:
        """Return the configuration with other values of some keys, as the keys of a new one.

        Raises:
            ConfigError: a value is impossible.
        """
        given = {key: getattr(self, key) for key in type(self).model_fields}
        return type(self)(**{**given, **values})

    def with_rounds(self, rounds: int) -> Self:
        """Return the configuration with another number of rounds; whether it is possible is not checked."""
        values = {key: getattr(self, key) for key in type(self).model_fields}
        training = self.training.model_copy(update={"rounds": rounds})
        # A `model_copy` would have this run's id.
        return self.model_construct(**{**values, "training": training})

    def adds_rounds(self, shorter: Self) -> bool:
        """Return whether this differs from another configuration in nothing but that it has more rounds."""
        rounds = shorter.training.rounds
        return rounds < self.training.rounds and self.with_rounds(rounds) == shorter

    def written(self) -> dict[str, Any]:
        """Return the configuration and its format, as in the file `config.json`."""
        return {"format": FORMAT, **self.model_dump(mode="json")}

    def canonical_json(self) -> str:
        """Return the configuration as JSON with sorted keys and no spaces."""
        return canonical(self.model_dump(mode="json"))


def canonical(values: Mapping[str, Any]) -> str:
    """Return values as JSON with sorted keys and no spaces."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def id_of(text: str) -> str:
    """Return the id of the configuration whose `written` values are `text`, as `canonical` has them."""
    return sha256(text.encode()).hexdigest()[:12]


SETTABLE = tuple(key for key in RunConfig.model_fields if key != PLUGINS)
"""Keys that a file or an option may set."""


def num_held_out(share: float, clients: int) -> int:
    """Return how many of a run's clients are held out: the share, rounded, and at least one of any share."""
    return max(1, floor(share * clients + 0.5)) if share else 0


def never_held_out(joins: Iterable[int], faults: Faults, drift: Iterable[int]) -> frozenset[int]:
    """Return the clients that join late, attack or change their data."""
    return frozenset((*joins, *faults.clients, *drift))


def _problem_with_held_out(share: float, clients: int, others: int) -> str | None:
    """Return in one line why so many clients cannot be held out, None if they can; `others` never are."""
    count = num_held_out(share, clients)
    if count < clients - others and clients - count >= 2:
        return None
    return (
        f"{count} of {clients} clients would never train; at least two must, one of them named by none of "
        f"joins, faults and drift (they name {others}): take a smaller share, or more clients"
    )


def _problem_with_drift(
    drift: Mapping[int, Move], scenario: Scenario, split: Split, rounds: int, joins: Mapping[int, int]
) -> str | None:
    """Return in one line why these moves are impossible, None if they are not; needs no images."""
    kind = kind_of(scenario.split)
    if not kind.CAN_MOVE:
        able = ", ".join(name for name, other in KINDS.items() if other.CAN_MOVE)
        return f"clients of split {scenario.split} cannot move to another group, only those of: {able}"
    groups_K = kind.groups(scenario, split)
    for client, move in drift.items():
        if client >= scenario.num_clients:
            return f"client {client} does not exist, the last one is {scenario.num_clients - 1}"
        if move.to >= split.num_clusters:
            return f"client {client} moves to group {move.to}, but the last one is {split.num_clusters - 1}"
        if move.to == groups_K[client]:
            return f"client {client} is in group {move.to} from the start; choose another one"
        if move.round > rounds:
            return f"client {client} moves in round {move.round}, but the last one is {rounds}"
        if move.round <= joins.get(client, 1):
            return f"client {client} moves in round {move.round}, but joins in round {joins[client]}"
    return None
