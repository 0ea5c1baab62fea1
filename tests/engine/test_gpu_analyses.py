"""Messages, encoders, explanations and attacks on a GPU's stand-in: no devices are mixed."""

from typing import get_args

import numpy as np
import pytest
import torch

from fedgrid.algorithms.clustered.before_training import ladd
from fedgrid.algorithms.clustered.before_training.class_means import ClassMeans, PrivateMessage
from fedgrid.algorithms.clustered.before_training.ladd import Styles, compute_styles
from fedgrid.algorithms.contract.encoder import EncoderKind
from fedgrid.algorithms.contract.orders import Message
from fedgrid.engine.federation.clients.messages import EvaluateTask
from fedgrid.engine.federation.encoders.encoder import (
    NUM_CLASSES,
    STATE,
    Codec,
    Encoder,
    fit_components,
    format_model_name,
)
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.models.registry import INPUT, MODELS
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.replay import observe_round
from fedgrid.engine.runtime.run.served_models import ServingWorker
from fedgrid.grids.attack.analysis import run_attack
from fedgrid.grids.attack.settings import ATTACK_KINDS, AttackSettings
from fedgrid.grids.explain.compute.explained_run import Explainer, compute_mean_colour, explain_run
from fedgrid.grids.explain.compute.settings import ExplanationSettings
from fedgrid.rivals.pacfl import BasisMessage
from tests.helpers import small_runs
from tests.helpers.gpu_cases import (
    Case,
    build_setup,
    build_start,
    build_worker,
    find_subclasses,
    find_uncovered,
)
from tests.helpers.gpu_stand_in import StandIn

SHAPE = (1, 8, 8)
PIXELS = np.random.default_rng(0).integers(0, 256, (25, *SHAPE), np.uint8)
MESSAGES: list[Message] = [
    ClassMeans(normalise="class", clip=10.0, noise=0.1),
    ClassMeans(normalise="vector", flip=(0.1, 0.2)),
    ClassMeans(quantise=False),
    Styles(per_class=True),
    Styles(per_class=False, clip=10.0, noise=0.1),
    BasisMessage(vectors=2),
]
EXPLAININGS = [
    ExplanationSettings(round=1, images=1, steps=3, on="members", baseline="blur"),
    ExplanationSettings(round=1, images=1, steps=3, on="others", baseline="black"),
    ExplanationSettings(round=1, images=1, steps=3, on="server", baseline="mean"),
    ExplanationSettings(round=1, images=1, on="others", as_published=True),
]


def on_both(work):
    """Return what some work on a device returns on the CPU and on the stand-in."""
    found = []
    for device in ("cpu", "cuda"):
        with StandIn() as gpu:
            found.append(work(device))
        assert (gpu.peak > 0) == (device == "cuda")
    return found


def encoder_of(kind, **settings):
    if kind == "pixels":
        arrays = {}
    elif kind == "pca":
        arrays = fit_components(PIXELS, 4)
    else:
        arrays = {STATE: draw_initial_vector(format_model_name(kind), image_inputs(*SHAPE), NUM_CLASSES, 0)}
    return Encoder(kind, SHAPE, arrays, **settings)


class TestMessages:
    @pytest.mark.parametrize("message", MESSAGES, ids=str)
    def test_clients_describe_their_data_there(self, message):
        """By codes of their images, or by the images."""
        encoder = encoder_of("dense") if isinstance(message, ClassMeans) else None

        def described(device):
            worker = build_worker(Case(images=9, clients=2), device)
            return [
                {name: array.tobytes() for name, array in each.payload.items()}
                for each in worker.describe([0, 1], message, encoder)
            ]

        one, other = on_both(described)
        assert one == other

    def test_every_message_has_a_case_with_all_its_choices(self):
        assert {type(message) for message in MESSAGES} == find_subclasses(Message) - {Message, PrivateMessage}
        for kind in (ClassMeans, Styles):
            assert find_uncovered([message for message in MESSAGES if type(message) is kind]) == []


@pytest.mark.parametrize("batch_statistics", [False, True])
@pytest.mark.parametrize("kind", get_args(EncoderKind))
def test_every_encoder_encodes_and_decodes_there(kind, batch_statistics):
    encoder = encoder_of(kind, batch_statistics=batch_statistics)

    def coded(device):
        codec, images = Codec(encoder, device), torch.tensor(PIXELS).to(device)
        codes = codec.encode_classes(images, (torch.arange(len(PIXELS)) % 3).to(device))
        return [each.cpu().numpy().tobytes() for each in (codes, codec.decode_images(codes))]

    one, other = on_both(coded)
    assert one == other


class TestExplanations:
    @pytest.mark.parametrize(
        ("model", "precision"),
        [
            *((name, "float32") for name in sorted(MODELS) if MODELS[name].saliency_layer),
            *((name, "bfloat16") for name in ("digitnet", "resnet9")),
        ],
    )
    def test_every_model_is_explained_there(self, model, precision):
        case = Case(model=model, training={"precision": precision, "normalise": "dataset"}, images=2)
        setup, start = build_setup(case), build_start(case)

        def explained(device):
            worker = ServingWorker(setup, device)
            module = worker.load_module(EvaluateTask(0, 0), [start])
            named = MODELS[model].saliency_layer
            layer = None if named == INPUT else worker.layer_prefix + named
            colour_C = compute_mean_colour(worker.load_training_images(0, 0))
            explainer = Explainer(EXPLAININGS[0], module, layer, 30, seed=0, colour_C=colour_C)
            return explainer.explain_image(*worker.load_image(0, 0, 0), np.random.default_rng(0), shown=True)

        one, other = on_both(explained)
        assert repr(one) == repr(other)
        assert one["map"]

    @pytest.mark.parametrize("settings", EXPLAININGS, ids=lambda each: each.key)
    def test_runs_are_explained_there(self, settings, run):
        config, folder = run
        one, other = on_both(
            lambda device: explain_run(
                config, checkpoint.load_state(folder, 1), small_runs.NOWHERE, settings, device
            )
        )
        assert one.num_rows
        assert one.equals(other)

    def test_every_choice_has_a_case(self):
        assert find_uncovered(EXPLAININGS) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one round, after which there are clusters, and its folder."""
    root = tmp_path_factory.mktemp("runs")
    config = small_runs.config("oracle", training={"rounds": 1})
    return config, small_runs.play(config, root, cache=None)


@pytest.mark.parametrize("kind", ATTACK_KINDS)
def test_attacks_are_made_on_the_cpu(kind, run):
    """They train clients again for the same bits, on one core; nothing of them is on a device."""
    config, folder = run
    settings = AttackSettings(kind=kind, **({"clients": 1, "steps": 2} if kind == "reconstruction" else {}))
    with StandIn() as gpu:
        observed = observe_round(config, None, checkpoint.load_state(folder, 1), small_runs.NOWHERE)
        rows, _ = run_attack(observed, settings, None)
    assert rows
    assert gpu.peak == 0


@pytest.mark.parametrize("layout", ["planes", "channels last"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 15, 33), (3, 64, 64)])
def test_styles_by_blocks_have_the_bits_of_all_at_once(shape, layout, monkeypatch):
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (23, *shape), np.uint8))
    if layout == "channels last":
        images = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    whole = compute_styles(images, 0.1)
    for at_a_time in (1, 5, 16):
        monkeypatch.setattr(ladd, "BLOCK", at_a_time * images[0].numel())
        assert torch.equal(compute_styles(images, 0.1), whole)


def test_styles_take_the_memory_of_a_block_whatever_the_number_of_images(monkeypatch):
    monkeypatch.setattr(ladd, "BLOCK", 4 * 64 * 64)
    peaks = []
    for count in (8, 80):
        with StandIn() as gpu:
            held = torch.zeros(count, 1, 64, 64, dtype=torch.uint8).to("cuda")
            gpu.forget()
            found = compute_styles(held, 0.1)
            peaks.append(gpu.peak - held.numel() - 2 * 4 * found.numel())
    assert peaks[1] <= peaks[0]
