"""Every key changes what is dealt, trained or decided, or is refused. Keys are the fields of sections.

A key fails if values other than its default are accepted and nothing changes. One value that acts is enough,
since a threshold may lie below or above all that it is compared with.
"""

import csv
import types
from contextlib import suppress
from functools import cache
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, Union, get_args, get_origin

import numpy as np
import pytest
from pydantic import ValidationError

from fedgrid.algorithms.averaging.fedopt import FedOptSettings
from fedgrid.algorithms.clustered.before_training.class_means import VECTOR
from fedgrid.algorithms.clustering.clusterers import CLUSTERERS
from fedgrid.algorithms.clustering.measures import compute_temperature
from fedgrid.algorithms.clustering.pooled_cosines import CosineSettings
from fedgrid.algorithms.contract.base import Settings
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.contract.section import Section, find_idle_keys
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.engine.federation.dealing import kinds
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.training.settings import LocalTraining, Schedule
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.configuration.idle_settings import check_keys
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.data.partition_files import add_partition_facts
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.algorithms.test_contract import ACTING, NAMES
from tests.helpers.small_cases import Federation, build_layout, build_orders, build_replies, rng
from tests.helpers.small_runs import NOWHERE, digits_of_two_writers, play, read_contents

CLIENTS = 6


def types_of(annotation):
    """Yield the types that a field may have, without None's and a union's wrapping."""
    if get_origin(annotation) is Annotated:
        yield from types_of(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from types_of(part)
    else:
        yield annotation


def other_values(field, value):
    """Yield values that a field may have beside this one, possible or not."""
    found = []
    for kind in types_of(field.annotation):
        if get_origin(kind) is Literal:
            found += get_args(kind)
        elif kind is bool:
            found += [True, False]
        elif kind is type(None):
            found.append(None)
        elif kind is int:
            found += [1, 2, 3, 4, 0, 10]
        elif kind is float:
            found += [0.5, 0.1, 1.0, 3.0, 0.01, 0.0]
    return [each for each in found if repr(each) != repr(value)]


def acts(change, values, usual):
    """Return whether a value leads to something else than usual, or all are refused."""
    accepted = False
    for value in values:
        with suppress(ConfigError, ValidationError):
            if change(value) != usual:
                return True
            accepted = True
    return not accepted


# Splits: what is dealt.


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the data set with groups, and two files that say who holds what."""
    folder = tmp_path_factory.mktemp("own")
    paths = []
    for turn in range(2):
        paths.append(str(folder / f"{turn}.csv"))
        with open(paths[-1], "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["example", "client"])
            pairs = [(example, client) for client in range(CLIENTS) for example in range(60)]
            rows.writerows((example + 5 * client * turn, client) for example, client in pairs)
    return digits_of_two_writers(folder), paths


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_every_key_of_a_split(kind, files):
    writers, paths = files
    lists = {"first_group": [[1, 2]], "sizes": [[4, 2], [3, 1, 1, 1]], "path": paths[1:]}
    base = {"kind": kind, **({"path": paths[0]} if kind == "file" else {})}
    count = 1 if kind == "centralised" else CLIENTS
    run = {"dataset": writers if kind == "natural" else "digits", "model": "digitnet", "clients": count}

    def dealt(**changes):
        """Return what clients and server hold; raises ConfigError for what is refused."""
        config = complete_config({**run, "split": {**base, **changes}}, NOWHERE)
        dataset = find_dataset(config.dataset, NOWHERE)
        kinds.check_split(
            config.split_scenario, add_partition_facts(dataset, config.split), config.split, config.seed
        )
        check_keys(config, dataset)
        setup, truth_K = prepare_setup(config, NOWHERE)
        sets = [images for client in setup.clients for images in (client.train, client.test)]
        sets += [setup.server_set, setup.reference_set]
        return truth_K.tolist(), [None if each is None else digest(each) for each in sets]

    usual, options = dealt(), kinds.find_kind(kind).DEFAULTS
    for key, field in Split.model_fields.items():
        default = options.get(key, field.get_default())
        values = lists.get(key, other_values(field, default)) if key != "kind" else []
        assert acts(lambda value, key=key: dealt(**{key: value}), values, usual), f"split.{key} with {kind}"


def digest(images):
    """Return what tells two sets of examples apart."""
    return len(images), np.asarray(images.labels).tobytes(), np.asarray(images.images).tobytes()


# Training: what clients send.

NO_EFFECT = {
    "tf32": "of a GPU",
    "stacked": "the same numbers, sooner",
    "buffers": "of a model with BatchNorm; refused for others",
    "kind": "a schedule's keys say its kind",
}
STATELESS = "sgd"
"""The optimizer without a state; a preset sets `keep_optimizer_state` for the data sets of all optimizers."""
SCHEDULES = ({}, {"kind": "step", "every": 1, "factor": 0.5}, {"kind": "cosine", "rounds": 3})


@cache
def trained(optimizer, momentum, changes):
    """Return what two rounds of two clients end with; `changes` are keys of `training` as pairs."""
    training = {"rounds": 2, "local_epochs": 1, "learning_rate": 0.01, "batch_size": 16}
    training |= {"optimizer": optimizer, "momentum": momentum, **dict(changes)}
    split = {"kind": "iid", "server_images": 20, "quantity": 0.05}
    given = {"clients": 2, "model": "linear", "training": training, "split": split, "algorithm": "fedavg"}
    config = complete_config({**given, "evaluation": {"every": 2}}, NOWHERE)
    check_keys(config, find_dataset("digits", NOWHERE))
    with TemporaryDirectory() as folder:
        return repr(read_contents(play(config, folder, cache=None)))


@pytest.mark.parametrize(("optimizer", "momentum"), [("sgd", 0.0), ("sgd", 0.9), ("adam", 0.0)])
def test_every_key_of_the_training(optimizer, momentum):
    usual, by_hand = trained(optimizer, momentum, ()), {"augment": [("crop",)], "normalise": ["dataset"]}
    for key, field in LocalTraining.model_fields.items():
        idle = (key == "keep_optimizer_state" and optimizer == STATELESS and not momentum) or key in NO_EFFECT
        values = by_hand.get(key, other_values(field, {"optimizer": optimizer}.get(key, field.default)))
        if not idle and key != "schedule":
            change = lambda value, key=key: trained(optimizer, momentum, ((key, value),))  # noqa: E731
            assert acts(change, values, usual), f"training.{key} with {optimizer}"


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_every_key_of_a_schedule(schedule):
    def rates(**changes):
        return [Schedule(**{**schedule, **changes}).share(number) for number in range(6)]

    for key, field in Schedule.model_fields.items():
        if key not in NO_EFFECT:
            change = lambda value, key=key: rates(**{key: value})  # noqa: E731
            assert acts(change, other_values(field, schedule.get(key, field.default)), rates()), key


# Algorithms: what the server decides, on a federation small enough to see through.

HARD_TO_SEE = {
    "noise": "an override gives it to all of OCFL, and some clusterers call nobody noise",
    "unclustered_consumes_shot": "as noise",
    "encoder": "trained before the first round; presets give one section to several kinds",
    "linkage": "of groups so clear that every linkage finds them",
    "gamma_max": "as linkage",
    "centre": "as linkage",
    "evidence": "as linkage",
    "num_clusters": "refused or checked with each clusterer: tests of kmeans, ifca, ladd and ward-told",
    "damping": "as linkage",
    "least_members": "as linkage",
    "least_clusters": "as linkage",
    "update_centroids": "of newcomers; refused without",
    "labels": "as linkage",
    "aggregate": "a median of two is their mean, and this federation's clusters are small",
    "shared": "the layers of a model; this one has a single one",
}
"""Keys without effect here, and why."""
BASES = (Settings, CosineSettings, FedOptSettings)
"""Whose keys act alike in every algorithm: their choices are tried with fedavg alone."""
LOCAL = {"local": [{"name": "fedprox", "mu": 0.1}]}
SEEN = {**ACTING, "lg-fedavg": {"shared": 0}, "embeddings-as-published": {"threshold": 10.0}}
"""Settings with which more of an algorithm is seen, or sooner."""


def decided(algorithm):
    """Return what a server does in six rounds in which a third of the clients are away, and their orders."""
    federation, names = Federation(participation=2 / 3), range(12)
    state = federation.start(algorithm)
    message, seen = algorithm.message(), [repr(algorithm.message())]
    if message is not None:
        said = {name: {VECTOR: np.float32([name % 3, 10 * (name % 3), rng(name).random()])} for name in names}
        state = algorithm.meet(state, said, build_layout(16, 4), rng())
    for number in range(6):
        if message is not None and algorithm.meets_again(number):
            turned = {name: said[(name + number) % 12] for name in names}
            state = algorithm.meet_again(state, turned, build_layout(16, 4), rng())
        vectors = federation.vectors(number, state, algorithm)
        seen.append(repr([vars(order) for order in build_orders(algorithm, state, vectors, number).values()]))
        view = build_replies(algorithm, state, number, vectors, 4)
        seen.append(compute_temperature(view.cosine_distances_KK))
        [(state, diagnostics)] = federation.play(algorithm, [number], state)
        served = algorithm.served(state, build_layout(16, 4))
        seen += [repr(diagnostics), [model.tobytes() for model in state.models], state.labels_K.tolist()]
        seen += [{name: array.tobytes() for name, array in state.arrays.items()}, repr(served.adaptation)]
        seen += [served.model_K.tolist(), served.choose_on, served.choose_by]
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_an_algorithm(name):
    """Each key is changed by itself, and beside each value of the algorithm's own choices."""
    entry, acting = ALGORITHMS[name].settings, SEEN.get(name, {})
    fields = type(entry).model_fields
    common = {key for base in BASES for key in base.model_fields} if name != "fedavg" else set()
    choices = [
        (key, value)
        for key in fields
        if key not in common
        and any(get_origin(kind) is Literal or kind is bool for kind in types_of(fields[key].annotation))
        for value in other_values(fields[key], getattr(entry, key))
    ]

    def changed(**settings):
        """Return what is decided; raises ConfigError for keys that cannot act."""
        algorithm = create_algorithm(name, {**acting, **settings})
        if idle := find_idle_keys(algorithm.settings, entry):
            raise ConfigError(str(idle))
        return decided(algorithm)

    for beside in ({}, *({key: value} for key, value in choices)):
        try:
            usual = changed(**beside)
        except (ConfigError, ValidationError):
            continue
        for key in [key for key in fields if key not in {*HARD_TO_SEE, *beside, *(common if beside else ())}]:
            value = getattr(create_algorithm(name, {**acting, **beside}).settings, key)
            if isinstance(value, Section):
                continue
            values = LOCAL.get(key, other_values(fields[key], value))
            change = lambda given, key=key, beside=beside: changed(**beside, **{key: given})  # noqa: E731
            assert acts(change, values, usual), f"algorithm.{key} of {name} beside {beside}"


@pytest.mark.parametrize("name", CLUSTERERS)
def test_every_key_of_a_clusterer(name):
    """On random distances, where no grouping is clear."""
    half_KK = rng(1).random((24, 24))
    distances_KK = (half_KK + half_KK.T) * (1 - np.eye(24))

    def labels(**settings):
        return CLUSTERERS[name](**settings).fit(distances_KK, rng()).tolist()

    for key, field in CLUSTERERS[name].model_fields.items():
        change = lambda value, key=key: labels(**{key: value})  # noqa: E731
        assert key == "name" or acts(change, other_values(field, field.default), labels()), key


@pytest.mark.parametrize("name", LOCAL_METHODS)
def test_every_key_of_a_local_method(name):
    method = LOCAL_METHODS[name]
    for key, field in method.model_fields.items():
        rules = {repr(method(**{key: value}).rule()) for value in (0.0, 0.5) if key != "name"}
        assert key == "name" or len(rules) == 2, (key, field)
