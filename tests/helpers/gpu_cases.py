"""Clients that train and test on the GPU's stand-in and on the CPU, with the same numbers."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pkgutil import walk_packages
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedgrid.algorithms.averaging.fednova import NormalisedRule
from fedgrid.algorithms.averaging.fedprox import ProximalRule
from fedgrid.algorithms.averaging.scaffold import VARIATE, ScaffoldRule
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.contract.orders import Adaptation, ChooseOn, Order, Payload
from fedgrid.algorithms.contract.section import Section
from fedgrid.algorithms.personalised.per_fedavg import AdaptRule, MetaRule
from fedgrid.engine.federation.clients.messages import ClientData, EvaluateTask, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ChannelStatistics, ImageSet
from fedgrid.engine.federation.encoders.encoder import Reconstruction
from fedgrid.engine.federation.inputs import Inputs, draw_examples, image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.models.registry import AUTOENCODERS, MODELS, ModelEntry
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.rivals import apfl, fedamp, fedem
from fedgrid.rivals.ditto import DittoRule
from fedgrid.rivals.fedala import MixingRule
from fedgrid.rivals.fedbabu import BodyRule
from fedgrid.rivals.fedproto import PROTOTYPES, ProtoRule
from fedgrid.rivals.fedrep import HeadThenBody
from fedgrid.rivals.fedsoft import CENTRES, SoftRule
from fedgrid.rivals.pfedme import MoreauRule
from tests.helpers.gpu_stand_in import StandIn

CLASSES, TESTS, BATCH = 3, 4, 2
SETTINGS = LocalTraining(local_epochs=1, batch_size=BATCH, optimizer="sgd", learning_rate=0.01)


@dataclass(frozen=True)
class Case:
    """A setup of clients, and what they do in a round."""

    rule: LocalRule = PLAIN
    training: Mapping[str, Any] = field(default_factory=dict)
    """What differs from `SETTINGS`."""
    model: str = "digitnet"
    images: int = 5
    """Images of a client; the last of three batches has one."""
    clients: int = 1
    choose_on: ChooseOn | None = "batch"
    """What clients choose among two models by; None: they are sent one."""
    adapts_by: LocalRule | None = None
    """Rule of the steps before a client's test."""
    payload: Callable[[NDArray[np.float32]], Payload] = lambda start: {}
    """Makes the rule's arrays from the initial model."""
    test_payload: Callable[[NDArray[np.float32]], Payload] | None = None
    """Makes those before a test; None: the same."""
    adapt_steps: int = 2
    """Number of those steps."""
    rounds: int = 2
    shape: tuple[int, int, int] | None = None
    """Channels, height and width of an image; None: small ones."""
    probabilities: bool = False
    """Whether tests return the model's outputs."""

    @property
    def settings(self) -> LocalTraining:
        """The settings of training, with this case's changes."""
        return LocalTraining(**{**SETTINGS.model_dump(), **self.training})


def _build_normed(channels: int, height: int, width: int, num_classes: int) -> nn.Module:
    """Build a small model with BatchNorm."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(4 * (height - 2) * (width - 2), num_classes)),
    )


OWN_MODELS = {"normed": ModelEntry("normed", "for tests", "ours", _build_normed)}
"""To be put into `MODELS` while a case of them is played."""
RULES = {
    "plain": Case(),
    "FedProx": Case(ProximalRule(mu=0.1)),
    "FedNova": Case(NormalisedRule(mu=0.1), {"momentum": 0.5}),
    "SCAFFOLD": Case(ScaffoldRule(), payload=lambda start: {VARIATE: np.full_like(start, 1e-4)}),
    "Per-FedAvg": Case(
        MetaRule(alpha=0.01, variant="first-order", delta=1e-3),
        adapts_by=AdaptRule(alpha=0.01),
        probabilities=True,
    ),
    "Per-FedAvg, Hessian-free": Case(MetaRule(alpha=0.01, variant="hessian-free", delta=1e-3)),
    "LG-FedAvg": Case(LocalRule(personal=((0, 10),)), adapts_by=LocalRule(personal=((0, 10),))),
    "autoencoder": Case(Reconstruction(), {"optimizer": "adam"}, "autoencoder-dense"),
    "Ditto": Case(DittoRule(pull=0.5), {"momentum": 0.9}, adapts_by=DittoRule(pull=0.5)),
    "APFL": Case(
        apfl.MixtureRule(alpha=0.5, adaptive=False), adapts_by=apfl.MixtureRule(alpha=0.5, adaptive=False)
    ),
    "APFL, adaptive": Case(apfl.MixtureRule(alpha=0.5, adaptive=True)),
    "pFedMe": Case(
        MoreauRule(pull=1.0, inner_steps=2, inner_rate=0.01, tested="personal"),
        adapts_by=MoreauRule(pull=1.0, inner_steps=2, inner_rate=0.01, tested="local"),
    ),
    "FedAMP": Case(
        fedamp.MixtureRule(strength=1.0), payload=lambda start: {fedamp.MIXTURE: start * np.float32(0.9)}
    ),
    "FedRep": Case(HeadThenBody(head_epochs=1, personal=((0, 10),)), {"local_epochs": 2}),
    "FedBABU": Case(BodyRule()),
    "FedProto": Case(
        ProtoRule(pull=1.0),
        adapts_by=ProtoRule(pull=1.0),
        payload=lambda start: {PROTOTYPES: np.ones((CLASSES, 96), np.float32)},
    ),
    "FedALA": Case(
        MixingRule(tensors=2, rate=1.0, share=1.0, batch=2, most_passes=2),
        adapts_by=MixingRule(tensors=2, rate=1.0, share=1.0, batch=2, most_passes=2),
    ),
    "FedEM": Case(
        fedem.MixtureRule(),
        choose_on=None,
        adapts_by=fedem.MixtureRule(),
        adapt_steps=0,
        payload=lambda start: {fedem.OTHERS: start[None] * np.float32(0.9)},
        test_payload=lambda start: {fedem.OTHERS: np.stack([start, start * np.float32(0.9)])},
    ),
    "FedSoft": Case(
        SoftRule(pull=0.1, least=0.1),
        choose_on=None,
        adapts_by=SoftRule(pull=0.1, least=0.1),
        payload=lambda start: {CENTRES: start[None] * np.float32(0.9)},
    ),
}
"""At least one for each local rule."""
TRAININGS = {
    "momentum": Case(training={"momentum": 0.9, "weight_decay": 1e-3, "keep_optimizer_state": True}),
    "adam": Case(training={"optimizer": "adam", "weight_decay": 1e-3, "keep_optimizer_state": True}),
    "crops and flips": Case(training={"augment": ("crop", "flip")}),
    "bfloat16, normalised": Case(
        training={"precision": "bfloat16", "normalise": "dataset"}, probabilities=True
    ),
    "tf32, two epochs": Case(training={"tf32": True, "local_epochs": 2, "learning_rate": 0.1}),
    "steps by schedule, clipped": Case(
        training={
            **{"local_epochs": 1, "local_steps": 3, "clip_gradient": 0.5, "buffers": "reset"},
            "schedule": {"kind": "cosine", "rounds": 4},
        },
        model="normed",
    ),
    "own buffers": Case(training={"buffers": "local"}, model="normed"),
    "stacked": Case(training={"stacked": 2, "momentum": 0.9, "augment": ("flip",)}, clients=3),
    "stacked, BatchNorm": Case(training={"stacked": 2, "batch_size": 4}, model="normed", clients=2),
    "stacked, Adam in bfloat16": Case(
        training={
            **{"stacked": 2, "optimizer": "adam", "precision": "bfloat16", "keep_optimizer_state": True},
            "normalise": "dataset",
        },
        clients=2,
        probabilities=True,
    ),
}
"""All values of the settings of training."""


def run_case(device: str, case: Case) -> dict[str, bytes]:
    """Train the clients, then adapt and test them; collect the bytes of all that comes out."""
    worker, start = build_worker(case, device), build_start(case)
    is_encoder = case.model in AUTOENCODERS
    candidates = (0,) if is_encoder or case.choose_on is None else (0, 1)
    choose_on = case.choose_on or "train"
    payload = case.payload(start)
    models = [start, start * np.float32(0.9)] if len(candidates) > 1 else [start]
    memories: dict[int, Mapping[str, NDArray[Any]]] = {}
    results: dict[str, bytes] = {}
    for round_index in range(case.rounds):
        orders = [
            Order(client, candidates, choose_on, rule=case.rule, payload=payload, infer=not is_encoder)
            for client in range(case.clients)
        ]
        tasks = [TrainTask(order, round_index, evaluate=not is_encoder) for order in orders]
        for reply in worker.train(tasks, models, memories):
            client = reply.report.client
            memories[client] = reply.memory
            arrays = {"update": reply.update, **reply.outputs, **reply.memory}
            results |= {
                f"{round_index} {client} {name}": np.asarray(arrays[name]).tobytes() for name in arrays
            }
            results[f"{round_index} {client} loss"] = repr(reply.report.train_loss).encode()
    if not is_encoder:
        adaptation = None
        if case.adapts_by is not None:
            before_test = (case.test_payload or case.payload)(start)
            adaptation = Adaptation(case.adapts_by, case.adapt_steps, before_test)
        tests = [EvaluateTask(client, 0, adaptation) for client in range(case.clients)]
        reports = worker.evaluate(tests, models, memories)
        results |= {f"{report.client} test": repr(report).encode() for report in reports}
    return results


def count_waits(case: Case) -> Counter[str]:
    """Run a case on the stand-in; count its waits, by what waited."""
    with StandIn() as gpu:
        on_device = run_case("cuda", case)
    # On the CPU inside a stand-in too: torch takes other kernels for some operations while it is watched.
    with StandIn() as nothing:
        assert on_device == run_case("cpu", case), "the numbers are the CPU's"
    assert nothing.peak == 0
    return gpu.waits


def find_step_waits(case: Case) -> Counter[str]:
    """Find what waits more often if clients take more steps."""
    with StandIn() as gpu:
        run_case("cuda", replace(case, images=case.settings.batch_size))
    return count_waits(replace(case, images=4 * case.settings.batch_size)) - gpu.waits


def build_worker(case: Case, device: str) -> ClientWorker:
    """Build a worker whose clients hold random images."""
    return ClientWorker(build_setup(case), device)


def build_setup(case: Case) -> Setup:
    """Build the setup of a case; each client holds other images."""
    inputs, rng = choose_inputs(case), np.random.default_rng(0)
    num_classes = 1 if case.model in AUTOENCODERS else CLASSES

    def make_images(count: int) -> ImageSet:
        images = draw_examples(inputs, count, rng)
        return ImageSet(images, rng.integers(0, num_classes, count), vocabulary=inputs.vocabulary)

    is_normalised = case.settings.normalise == "dataset"
    return Setup(
        model=case.model,
        num_classes=num_classes,
        training=case.settings,
        seed=0,
        clients=tuple(
            ClientData(client, make_images(case.images), make_images(TESTS)) for client in range(case.clients)
        ),
        server_set=make_images(TESTS),
        server_parts=dict.fromkeys(range(case.clients), slice(1, TESTS)),
        reference_set=make_images(TESTS),
        probabilities=case.probabilities,
        normalised_by=ChannelStatistics((0.5,), (0.2,)) if is_normalised else None,
    )


def build_start(case: Case) -> NDArray[np.float32]:
    """Build the initial model of a case."""
    num_classes = 1 if case.model in AUTOENCODERS else CLASSES
    return draw_initial_vector(case.model, choose_inputs(case), num_classes, 0)


def choose_inputs(case: Case) -> Inputs:
    """Choose what an example is: a small image where the model takes one."""
    entry = MODELS.get(case.model) or AUTOENCODERS[case.model]
    side = max(8, entry.minimum_side)
    small = {"pixels": image_inputs(1, side, side), "numbers": Inputs("numbers", (1, 9))}
    first = next((small[kind] for kind in small if kind in entry.takes), Inputs("tokens", (6,), 9))
    return image_inputs(*case.shape) if case.shape else first


def find_subclasses(kind: type) -> set[type]:
    """Find the classes of algorithms and engine that derive from `kind`, itself included."""
    for package in ("fedgrid.algorithms", "fedgrid.engine", "fedgrid.rivals"):
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    classes: set[type] = set()
    new: set[type] = {kind}
    while new:
        classes |= new
        new = set[type]().union(*(type.__subclasses__(each) for each in new)) - classes
    return {each for each in classes if each.__module__.startswith("fedgrid.")}


def find_uncovered(cases: Sequence[Section], others: int = 1) -> list[str]:
    """Find the fields of settings of one class that have a value which no case has.

    Of choices and of true and false all values count, of other fields `others` values.
    """
    fields = type(cases[0]).model_fields
    lacking = []
    for name, about in fields.items():
        seen: set[Any] = {getattr(case, name) for case in cases}
        choices = set(_list_choices(about.annotation))
        members = {member for value in seen for member in (value if isinstance(value, tuple) else (value,))}
        if not choices <= members or (not choices and len(seen) < others):
            lacking.append(name)
    return lacking


def _list_choices(annotation: Any) -> Iterable[Any]:
    """List the values of a choice, of several ones too, or of a bool; none of another type."""
    if annotation is bool:
        return (True, False)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if get_origin(annotation) in (tuple, Union, UnionType):
        return [choice for part in get_args(annotation) for choice in _list_choices(part)]
    return ()
