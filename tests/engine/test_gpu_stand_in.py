"""Training and tests on a GPU's stand-in: no devices are mixed, and no step waits for the device."""

import gc
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from fedgrid.algorithms.contract.local_rule import LocalRule, LocalSteps
from fedgrid.algorithms.contract.orders import ChooseOn, Order
from fedgrid.engine.federation.clients.messages import TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.encoders.encoder import Reconstruction
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.models.registry import AUTOENCODERS, MODELS
from fedgrid.engine.federation.training import batches, evaluation
from fedgrid.engine.federation.training.local import ModelInTraining, Moment
from fedgrid.engine.runtime.clients.actor import Client
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from tests.helpers.gpu_cases import (
    CLASSES,
    OWN_MODELS,
    RULES,
    SETTINGS,
    TRAININGS,
    Case,
    build_setup,
    build_start,
    build_worker,
    count_waits,
    find_step_waits,
    find_subclasses,
    find_uncovered,
    run_case,
)
from tests.helpers.gpu_stand_in import StandIn


class TestStandIn:
    def test_tensors_of_both_devices_are_not_mixed_but_for_single_numbers(self):
        with StandIn():
            here, away = torch.ones(2, device="cuda"), torch.ones(2)
            assert (here.device.type, (here * 2).device.type, away.device.type) == ("cuda", "cuda", "cpu")
            assert (here * torch.tensor(2.0)).device.type == "cuda"
            for mix in (
                lambda: here + away,
                lambda: away.add_(here),
                lambda: torch.cat([here, away]),
                lambda: here.index_select(0, torch.tensor([1])),
                lambda: torch.where(away > 0, here, 0),
                lambda: away[torch.zeros(1, dtype=torch.int64, device="cuda")],
            ):
                with pytest.raises(RuntimeError, match="same device"):
                    mix()

    def test_arrays_come_from_the_cpu_only(self):
        with StandIn():
            here = torch.ones(2, device="cuda")
            for read in (here.numpy, lambda: np.asarray(here)):
                with pytest.raises(TypeError, match=r"use Tensor\.cpu"):
                    read()
            assert here.cpu().numpy().tolist() == [1, 1]

    def test_generator_of_the_cpu_draws_nothing_there(self):
        with StandIn(), pytest.raises(RuntimeError, match="generator"):
            torch.rand(2, device="cuda", generator=torch.Generator())

    def test_every_wait_is_counted(self):
        with StandIn() as gpu:
            here = torch.ones(2, device="cuda")
            one, mask, place = here[0], here > 0, torch.tensor([1])
            for wait in (
                *(one.item, lambda: float(one), lambda: bool(one), lambda: int(one), here.tolist, here.cpu),
                *(lambda: here[mask], lambda: here[place], mask.nonzero, lambda: torch.equal(here, here)),
                *(lambda: torch.ones(2).to("cuda"), lambda: torch.tensor([1.0], device="cuda")),
                *(lambda: here.copy_(torch.zeros(2)), lambda: torch.zeros(2).copy_(here)),
                lambda: torch.ones(1, dtype=torch.int64, device="cuda").bincount(),
            ):
                gpu.forget()
                wait()
                assert gpu.waits.total() == 1

    def test_what_stays_on_the_device_waits_for_nothing(self):
        with StandIn() as gpu:
            here = torch.ones(2, 2, requires_grad=True, device="cuda")
            (here @ here).relu().sum().backward()
            torch.ones(2).to("cuda", non_blocking=True).mul_(2).add_(1.0)
        assert gpu.waits == {}
        assert here.grad.tolist() == [[4, 4], [4, 4]]

    def test_bytes_are_those_of_tensors_alive_views_count_once(self):
        with StandIn() as gpu:
            here = torch.zeros(10, device="cuda")
            view = here[:5].view(5, 1)
            assert (gpu.live, gpu.peak) == (40, 40)
            del here
            assert gpu.live == 40
            double = view.double()
            del view, double
            assert (gpu.live, gpu.peak) == (0, 80)


class TestRules:
    @pytest.mark.parametrize("name", RULES)
    def test_a_rule_mixes_no_devices_and_waits_in_no_step(self, name):
        assert find_step_waits(RULES[name]) == {}

    def test_every_rule_has_a_case_with_all_its_choices(self):
        used = [rule for case in RULES.values() for rule in (case.rule, case.adapts_by) if rule is not None]
        assert {type(rule) for rule in used} == find_subclasses(LocalRule)
        for kind in find_subclasses(LocalRule):
            assert find_uncovered([rule for rule in used if type(rule) is kind]) == []

    def test_a_rule_without_a_case_would_be_found(self):
        class Another(LocalRule):
            pass

        Another.__module__ = "fedgrid.algorithms.another"
        assert Another in find_subclasses(LocalRule)
        Another.__module__ = __name__
        assert Another not in find_subclasses(LocalRule)


class Faulty(LocalRule):
    """Takes the gradient to main memory in each step; and back, unless `is_mixed`."""

    is_mixed: bool

    def start(self, local):
        steps = LocalSteps()
        steps.correct = self.correct
        return steps

    def correct(self, weights, gradient):
        here = gradient.cpu()
        gradient += here if self.is_mixed else here.to(gradient.device)


def test_a_fault_in_a_rule_is_found():
    assert find_step_waits(Case(Faulty(is_mixed=False))).total() > 0
    with pytest.raises(RunError, match="same device"):
        count_waits(Case(Faulty(is_mixed=True)))


class TestSettings:
    @pytest.mark.parametrize("name", TRAININGS)
    def test_a_setting_mixes_no_devices_and_waits_in_no_step(self, name, monkeypatch):
        for model, entry in OWN_MODELS.items():
            monkeypatch.setitem(MODELS, model, entry)
        assert find_step_waits(TRAININGS[name]) == {}

    def test_every_setting_has_cases_with_all_its_choices_or_two_values(self):
        assert find_uncovered([SETTINGS, *(case.settings for case in TRAININGS.values())], others=2) == []

    def test_a_setting_without_a_case_would_be_found(self):
        assert set(find_uncovered([SETTINGS], others=2)) == set(type(SETTINGS).model_fields)

    @pytest.mark.parametrize("choose_on", get_args(ChooseOn))
    def test_clients_choose_their_model_on_the_device(self, choose_on):
        count_waits(Case(choose_on=choose_on))


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_trains_and_is_tested_there(model):
    with StandIn() as gpu:
        run_case("cuda", Case(model=model, images=2, rounds=1, choose_on=None))
    assert gpu.peak > 0


@pytest.mark.parametrize("model", sorted(AUTOENCODERS))
def test_every_autoencoder_trains_there(model):
    assert find_step_waits(Case(Reconstruction(), {"optimizer": "adam"}, model)) == {}


LARGE = (3, 96, 96)
IMAGE = 3 * 96 * 96
"""Bytes of a large image, a byte a value."""


def peak(images, **training):
    """Return the bytes on the device in the training of clients with this many large images, at most."""
    case = Case(training={"batch_size": 16, **training}, images=images, clients=2, shape=LARGE)
    with StandIn() as gpu:
        worker = build_worker(case, "cuda")
        tasks = [TrainTask(Order(client, (0,)), 0, evaluate=False) for client in range(case.clients)]
        worker.train(tasks, [build_start(case)], {})
    return gpu.peak


@pytest.mark.parametrize("training", [{}, {"stacked": 2}, {"augment": ("crop", "flip")}])
def test_memory_grows_with_the_images_held_so_that_one_batch_measures_it(training, monkeypatch):
    """Beside its pixels an image held has a class, a place in the epoch's order, a class and moves there."""
    monkeypatch.setattr(batches, "BLOCK", 0)
    of_one_batch, of_five = (peak(count, **training) for count in (16, 80))
    held = 2 * 64 * (IMAGE + 8)
    assert held <= of_five - of_one_batch <= held + 2 * 64 * 100


class TestReferenceImages:
    """They are converted a batch at a time, so that more of them take only what they say and are."""

    @pytest.mark.parametrize("by", ["the server's wish", "a rule"])
    def test_memory_of_predictions_is_that_of_a_batch(self, by, monkeypatch):
        monkeypatch.setattr(evaluation, "TEST_BATCH", 4)

        def taken(count):
            """Bytes beside the images, at most."""
            setup = replace(build_setup(Case(shape=LARGE)), reference_set=blank_images(count))
            with StandIn() as gpu:
                worker = ClientWorker(setup, "cuda")
                reference = worker._holdings.reference
                held = reference.images, reference.labels
                local = ModelInTraining(worker._flat, held, SETTINGS, {}, {}, reference.images, Moment())
                gpu.forget()
                before = gpu.live
                found = (
                    worker._predict_reference(build_start(Case(shape=LARGE)))
                    if by != "a rule"
                    else local.predict()
                )
                assert found.shape == (count, CLASSES)
            return gpu.peak - before

        # Loading the model takes as much as 128 images as float32.
        assert taken(400) - taken(8) <= 392 * CLASSES * 4 * 4

    def test_predictions_have_the_bytes_of_all_converted_at_once(self):
        worker = build_worker(Case(), "cpu")
        images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (300, 8, 8, 1), np.uint8))
        images = images.permute(0, 3, 1, 2)
        module = worker._flat.module
        whole = evaluation.predict_probabilities(module, evaluation.convert_to_inputs(images))
        assert evaluation.predict_probabilities(module, images).tobytes() == whole.tobytes()


def blank_images(count):
    """Return large black images."""
    return ImageSet(np.zeros((count, *LARGE), np.uint8), np.zeros(count, np.int64))


def test_clients_of_a_new_run_take_the_place_of_those_before_on_the_device():
    """Without the garbage collector, which a client actor calls seldom."""
    actor = Client.__ray_metadata__.modified_class(0.0)
    actor._device = "cuda"
    setup = build_setup(Case(images=50, model="tinyvgg"))
    gc.disable()
    try:
        for prepare in (
            InProcessPool("cuda").prepare,
            lambda given: actor.prepare(given, (), given.server_set, None, *given.clients),
        ):
            with StandIn() as gpu:
                prepare(setup)
                of_one = gpu.peak
                prepare(setup)
            assert 0 < gpu.peak == of_one
    finally:
        gc.enable()


def test_small_images_are_gathered_by_blocks_of_so_many_bytes():
    assert [list(range(25))[block] for block in batches.divide_into_blocks(25, 4, batches.BLOCK // 2)] == [
        list(range(8)),
        list(range(8, 16)),
        list(range(16, 24)),
        [24],
    ]
    assert [block.start for block in batches.divide_into_blocks(25, 4, 2 * batches.BLOCK)] == list(
        range(0, 25, 4)
    )
