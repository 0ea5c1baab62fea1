"""The complete configuration of a run; the hash of its canonical JSON is the run's id.

Every key here enters the id, so a key that changes no number does not belong here. A key added later is left
out of the JSON at its default (`omitted_defaults`), so that older runs keep their ids.
"""

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
from fedgrid.engine.federation.dealing.kinds import BUILT_IN, KINDS, find_kind
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.natural import NATURAL
from fedgrid.engine.federation.partition.scenarios import (
    CENTRALISED,
    Scenario,
    build_scenario,
    format_seed_text,
)
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.record_names import EPSILON, FAULT, GLOBAL_MODEL, GROUP, PROBABILITIES, TARGET
from fedgrid.engine.federation.seeds import derive_root_seed
from fedgrid.engine.federation.training.settings import Evaluation, Training
from fedgrid.engine.federation.uplink.privacy import Privacy, is_private
from fedgrid.engine.federation.uplink.steps import Uplink

PLUGINS_KEY = "plugin_digests"
"""The key of a run that `complete` fills in; no file may set it."""
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class AlgorithmSection(Section):
    """The section `algorithm` of a run's configuration: a name and, as further keys, all settings of that
    algorithm.

    The settings stay as JSON, because a stored run may be of a plugin that is not loaded;
    `runtime.plugins.run_algorithm` builds the algorithm.

    Args:
        name: a name of `fedgrid list algorithms`; every other key is a setting.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    """One of `fedgrid list algorithms`."""

    @property
    def settings(self) -> dict[str, Any]:
        """The algorithm's settings by name, as JSON has them."""
        return self.model_extra or {}


class Move(Section):
    """A client whose data change from one hidden group to another, in the section `drift`.

    From its round on, it trains and is tested on images of its new group, and the truth says so. Where groups
    change images or labels (rotated, rolled, flipped, ...) it keeps its images, changed as in the new group.
    Where groups are sets of classes (overlapping, nonoverlapping) it draws new images from the new group's
    classes, by the same rule as its first ones. Other kinds of splits have no images to draw again.

    Source of the idea: Prigent et al., section VII, and Bettinelli et al., section VI, name it as future
    work; how data change is ours.

    Args:
        round: first round of the new group, from 2.
        to: number of the new group, from 0.
    """

    round: Annotated[int, Field(ge=2, strict=True)]
    """The first round, from 2, in which the client holds images of the new group."""
    to: Annotated[int, Field(ge=0, strict=True)]
    """The new hidden group, from 0, as in the column `true_cluster` of the records."""


class RunConfig(Section):
    """Everything that a run's numbers depend on, and nothing else: not where it runs, nor how fast.

    It is built with all keys that have no default; `fedgrid.run` takes a dict too, and fills in what that
    leaves out.

    Args:
        dataset: a name of `fedgrid data`, or the user's own images by their content.
        clients: number of federated clients.
        algorithm: name and all settings of the algorithm.
        seed: seeds every random generator of the run; 0 or more.
        model: a name of `fedgrid list models`.
        training: rounds, batches, optimizer of the local training.
        split: how images are dealt to clients. Default: `Split()`.
        evaluation: which tests are made. Default: `Evaluation()`.
        participation: share of the present clients sampled in each round. Default: 1.
        dropout: probability that a sampled client sends no reply. Default: 0.
        joins: client -> first round in which it is present. Default: all from round 1.
        plugin_digests: digests of the plugins in use; fedgrid fills it in. Default: none.
        uplink: steps of an update's way to the server. Default: none.
        privacy: what an epsilon means, and the server's noise. Default: `Privacy()`.
        weights: weight of a client in the server's means. Default: `none`, all are equal.
        faults: clients that attack. Default: none.
        drift: client -> its change of hidden group. Default: none.
        held_out: share of the clients that never train. Default: 0.

    Raises:
        ConfigError: a key is missing or unknown, a value is impossible, or keys contradict one another.

    Example:
        >>> import fedgrid
        >>> training = {
        ...     "rounds": 2, "batch_size": 32, "optimizer": "sgd", "learning_rate": 0.1
        ... }
        >>> config = fedgrid.RunConfig(
        ...     dataset="digits", clients=15, algorithm={"name": "fedavg"}, seed=0, model="digitnet",
        ...     training=training,
        ... )
        >>> config.name
        'digits-15-nonoverlapping-balanced-fedavg-s0'
        >>> config.with_values(participation=0.5).run_id == config.run_id
        False
    """

    dataset: str
    """A name of `fedgrid data`, or the user's own images by their content (`runtime.data.own_images`)."""
    clients: PositiveInt
    """Number of federated clients."""
    algorithm: AlgorithmSection
    """`name`, one of `fedgrid list algorithms`, and all of its settings."""
    seed: Annotated[int, Field(ge=0, strict=True)]
    """Seeds every random generator of the run."""
    model: str
    """One of `fedgrid list models`."""
    training: Training
    """Rounds, batches and optimizer of the local training."""
    split: Split = Split()
    """How images are dealt to clients."""
    evaluation: Evaluation = Evaluation()
    """Which tests are made in each round."""
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the present clients that is sampled in each round; at least one client."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a sampled client sends no reply (injected faults)."""
    joins: dict[Annotated[int, Field(ge=0)], PositiveInt] = {}
    """Newcomers: client -> the first round, from 1, in which it is present."""
    plugin_digests: tuple[Digest, ...] = ()
    """Digests of the plugins that the algorithm, its parts, the model and the kind of split come from,
    sorted. Their code is part of what the run's numbers depend on, so a changed plugin makes another
    run."""

    uplink: Uplink = ()
    """Steps that an update passes between client and server, in this order, as in `[{clip: 1.0}]`."""
    privacy: Privacy = Privacy()
    """What an epsilon means, and the server's noise."""

    weights: Literal["none", "images", "batches"] = "none"
    """Weight of a client in every mean of clients that a server takes, and in the mean norm of SCL's test;
    distances have no weights. `none`: all are equal, as in OCFL. `images`: the images it trains on, as in
    FedAvg. `batches`: the batches it trains on, one a local step."""

    faults: Faults = Faults()
    """Clients that attack the training, as in `{label_flip: [3], sign_flip: [7], scale: {9: 10}}`."""

    drift: dict[Annotated[int, Field(ge=0)], Move] = {}
    """Clients whose data move to another hidden group, as in `{3: {round: 25, to: 2}}`."""

    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the clients, at least one, that never train in the federation. After the last round each is
    placed and tested as a newcomer."""

    # Keys that came after the first stored runs. At their defaults they are left out of the JSON, so that
    # older runs keep their ids; a new key is added here.
    omitted_defaults = (
        "participation",
        "dropout",
        "joins",
        "uplink",
        "privacy",
        PLUGINS_KEY,
        "faults",
        "drift",
        "held_out",
    )

    @field_validator("split")
    @classmethod
    def _further_keys_are_of_a_plugin(cls, split: Split) -> Split:
        """Refuse further keys of a built-in kind of split; only a plugin's kind has keys of its own."""
        if split.kind in BUILT_IN:
            Section.model_validate(split.model_extra)  # Which has no key.
        return split

    @field_validator("joins")
    @classmethod
    def _joins_are_possible(cls, joins: dict[int, int], before: ValidationInfo) -> dict[int, int]:
        """Check that clients and rounds of `joins` exist, and that round 1 has a client."""
        # pydantic runs every validator even after an earlier field failed; that error is reported alone.
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
        """Check that the attackers exist, and that one client is honest."""
        if "clients" in before.data and (problem := faults.find_problem(before.data["clients"])):
            raise ValueError(problem)
        return faults

    @field_validator("drift")
    @classmethod
    def _drift_is_possible(cls, drift: dict[int, Move], before: ValidationInfo) -> dict[int, Move]:
        """Check the moves against the kind of split, the rounds and the joins."""
        given = before.data
        if drift and {"dataset", "clients", "split", "training", "joins"} <= set(given):
            scenario = build_scenario(given["dataset"], given["split"].kind, given["clients"])
            problem = _find_problem_with_drift(
                drift, scenario, given["split"], given["training"].rounds, given["joins"]
            )
            if problem:
                raise ValueError(problem)
        return drift

    @field_validator("held_out")
    @classmethod
    def _others_can_train(cls, share: float, before: ValidationInfo) -> float:
        """Check that enough clients are left to train, and that no epsilon is reported."""
        given = before.data
        if share and {"clients", "joins", "uplink", "privacy", "faults", "drift"} <= set(given):
            others = find_never_held_out(given["joins"], given["faults"], given["drift"])
            if problem := _find_problem_with_held_out(share, given["clients"], len(others)):
                raise ValueError(problem)
            if is_private(given["uplink"], given["privacy"]):
                raise ValueError("no epsilon counts what a held-out client sends; leave it out, or the noise")
        return share

    @cached_property
    def run_id(self) -> str:
        """Id of this configuration, and of what its numbers mean: twelve hexadecimal digits."""
        return compute_id(format_canonical_json(self.written()))

    @property
    def scenario(self) -> str:
        """Data set, number of clients and split, as `mnist-15-overlapping-imbalanced`."""
        return f"{self.short_dataset}-{self.clients}-{self.split.kind}"

    @property
    def split_scenario(self) -> Scenario:
        """The same scenario as the `Scenario` that kinds of splits work with."""
        return build_scenario(self.dataset, self.split.kind, self.clients)

    @property
    def short_dataset(self) -> str:
        """Name of the data set without a path: `mnist`, `folder_cats`; two folders may have the same."""
        return names.shorten_name(self.dataset)

    @property
    def own_images(self) -> tuple[str, ...]:
        """Names of the user's own images and split file that the run needs; empty without any."""
        given = {"dataset": self.dataset, "algorithm": self.algorithm.settings, "split": self.split.path}
        return tuple(names.find_content_names(given))

    @property
    def root_seed(self) -> int:
        """Seed of every random number of the run but the split's: one for each scenario and seed.

        Neither the algorithm nor any other setting counts, and of the user's own images only the name of the
        folder or file: a run is the same wherever they lie.
        """
        return derive_root_seed(
            format_seed_text(self.short_dataset, self.clients, self.split.kind), self.seed
        )

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
        # Absent at its default, see `omitted_defaults`.
        values["training"].pop("stop_after", None)
        return f"{self.scenario}-s{self.seed}-{compute_id(format_canonical_json(values))}"

    def columns(self, traits: Traits | None) -> frozenset[str]:
        """List the columns of the run's records that not all runs have.

        They are the algorithm's own; `fault` under attack; `epsilon` with noise; `centralised` for its norms;
        `group` where the data set, or a file, names the groups; those of the keys of `evaluation`; `target`
        where numbers are predicted.

        Args:
            traits: the algorithm's traits; None if the algorithm cannot be built here.
        """
        own = traits.columns if traits is not None else frozenset()
        attacked = {FAULT} if self.faults.attackers else set()
        private = {EPSILON} if is_private(self.uplink, self.privacy) else set()
        centralised = {CENTRALISED} if self.split.kind == CENTRALISED else set()
        named = {GROUP} if self.split.kind in (NATURAL, FILE) else set()
        tested = {word for word in (GLOBAL_MODEL, PROBABILITIES) if getattr(self.evaluation, word)}
        numbers = {TARGET} if names.has_target(self.dataset) else set()
        return own | attacked | private | centralised | named | tested | numbers

    def with_values(self, **values: Any) -> Self:
        """Copy the configuration with other values of some keys, and check it like a new one.

        Raises:
            ConfigError: a value is impossible.
        """
        # A new object, since pydantic's `model_copy` does not validate.
        given = {key: getattr(self, key) for key in type(self).model_fields}
        return type(self)(**{**given, **values})

    def with_rounds(self, rounds: int) -> Self:
        """Copy the configuration with another number of rounds, without checking whether that is possible."""
        values = {key: getattr(self, key) for key in type(self).model_fields}
        training = self.training.model_copy(update={"rounds": rounds})
        # A `model_copy` would have this run's id.
        return self.model_construct(**{**values, "training": training})

    def adds_rounds(self, shorter: Self) -> bool:
        """Check whether this configuration differs from another one in nothing but having more rounds."""
        rounds = shorter.training.rounds
        return rounds < self.training.rounds and self.with_rounds(rounds) == shorter

    def written(self) -> dict[str, Any]:
        """Convert the configuration and its format to JSON values, as in the file `config.json`."""
        return {"format": FORMAT, **self.model_dump(mode="json")}

    def canonical_json(self) -> str:
        """Format the configuration as JSON with sorted keys and no spaces."""
        return format_canonical_json(self.model_dump(mode="json"))


def format_canonical_json(values: Mapping[str, Any]) -> str:
    """Format values as JSON with sorted keys and no spaces, so that equal values have equal bytes."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def compute_id(text: str) -> str:
    """Compute a configuration's id from the canonical JSON of its `written` values."""
    return sha256(text.encode()).hexdigest()[:12]


SETTABLE_KEYS = tuple(key for key in RunConfig.model_fields if key != PLUGINS_KEY)
"""Keys that a file or an option may set."""


def count_held_out(share: float, clients: int) -> int:
    """Count the clients that are held out: the share, rounded half up, but at least one.

    A share of 0 holds out none.
    """
    # `round` would round half to even, so that 0.5 of 5 clients were 2 and 0.5 of 7 were 4.
    return max(1, floor(share * clients + 0.5)) if share else 0


def find_never_held_out(joins: Iterable[int], faults: Faults, drift: Iterable[int]) -> frozenset[int]:
    """Find the clients that are never held out: those that join late, attack or change their data."""
    return frozenset((*joins, *faults.attackers, *drift))


def _find_problem_with_held_out(share: float, clients: int, others: int) -> str | None:
    """Explain in one line why this share of the clients cannot be held out; None if it can.

    Args:
        share: share of the clients that never train.
        clients: number of all clients.
        others: number of clients that are never held out.
    """
    count = count_held_out(share, clients)
    if count < clients - others and clients - count >= 2:
        return None
    return (
        f"{count} of {clients} clients would never train; at least two must, one of them named by none of "
        f"joins, faults and drift (they name {others}): take a smaller share, or more clients"
    )


def _find_problem_with_drift(
    drift: Mapping[int, Move], scenario: Scenario, split: Split, rounds: int, joins: Mapping[int, int]
) -> str | None:
    """Explain in one line why these moves are impossible; None if they are possible. Needs no images."""
    kind = find_kind(scenario.split)
    if not kind.CAN_MOVE:
        able = ", ".join(name for name, other in KINDS.items() if other.CAN_MOVE)
        return f"clients of split {scenario.split} cannot move to another group, only those of: {able}"
    groups_K = kind.list_groups(scenario, split)
    for client, move in drift.items():
        if client >= scenario.num_clients:
            return f"client {client} does not exist, the last one is {scenario.num_clients - 1}"
        if move.to >= split.num_clusters:
            return f"client {client} moves to group {move.to}, but the last one is {split.num_clusters - 1}"
        # A move must change the truth; else the run would be another one with the same numbers.
        if move.to == groups_K[client]:
            return f"client {client} is in group {move.to} from the start; choose another one"
        if move.round > rounds:
            return f"client {client} moves in round {move.round}, but the last one is {rounds}"
        if move.round <= joins.get(client, 1):
            return f"client {client} moves in round {move.round}, but joins in round {joins[client]}"
    return None
