"""What happens to an update between a client and the server."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.federation.uplink.steps import (
    Clip,
    Noise,
    Quantise,
    TopK,
    UplinkStep,
    find_largest_places,
    send_update,
)
from fedgrid.engine.runtime.configuration.complete import complete_config

NOWHERE = Path("no-data-needed")


def vector(*entries):
    array = np.array(entries, np.float32)
    array.setflags(write=False)
    return array


def sent(update, *uplink, num_parameters=2):
    return send_update(update, uplink, num_parameters, np.random.default_rng(0))


class TestClip:
    def test_scales_a_long_update_to_the_norm(self):
        """|(3, 4)| = 5, so that a norm of 1 leaves a fifth: (0.6, 0.8)."""
        assert sent(vector(3, 4), Clip(clip=1.0)).update == pytest.approx([0.6, 0.8])

    @pytest.mark.parametrize("clip", [5.0, 7.0])
    def test_sends_a_short_update_as_it_is(self, clip):
        update = vector(3, 4)
        assert sent(update, Clip(clip=clip)).update is update

    def test_neither_measures_nor_changes_buffers(self):
        """The third entry is a buffer; with it the norm would be 13."""
        update = vector(3, 4, 12)
        assert sent(update, Clip(clip=5.0)).update is update
        assert sent(update, Clip(clip=2.5)).update.tolist() == [1.5, 2, 12]

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_leaves_an_update_that_is_not_finite(self, bad):
        """The server is to see that it is of no use."""
        update = vector(3, bad)
        assert sent(update, Clip(clip=1.0)).update.tobytes() == update.tobytes()

    def test_is_right_where_float32_cannot_hold_the_squares(self):
        assert sent(vector(3e30, 4e30), Clip(clip=1.0)).update == pytest.approx([0.6, 0.8])


class TestNoise:
    def test_its_size_is_the_multiplier_times_the_clip(self):
        """0.5 x 2 = 1. The deviation of 40,000 draws has a standard error of 1 / sqrt(80,000)."""
        update = np.zeros(40_000, np.float32)
        noisy = sent(update, Clip(clip=2.0), Noise(noise=0.5), num_parameters=40_000).update
        assert noisy.std() == pytest.approx(1.0, abs=4 / np.sqrt(80_000))
        assert noisy.mean() == pytest.approx(0.0, abs=4 / np.sqrt(40_000))

    def test_other_multipliers_scale_the_same_noise(self):
        """Common random numbers: runs that differ in the noise only are compared in pairs."""
        zero = np.zeros(9, np.float32)
        one, ten = (sent(zero, Clip(clip=1.0), Noise(noise=each), num_parameters=9) for each in (0.1, 1.0))
        assert ten.update == pytest.approx(10 * one.update)

    def test_none_is_the_update_itself(self):
        update = vector(3, 4)
        assert sent(update, Clip(clip=1e30), Noise(noise=0)).update is update

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_covers_an_update_that_no_clip_bounds_by_sending_nothing_of_it(self, bad):
        assert np.isnan(sent(vector(3, bad), Clip(clip=1.0), Noise(noise=0.1)).update).all()


def top(update, share, residual=None, num_parameters=None):
    size = len(update) if num_parameters is None else num_parameters
    rng = np.random.default_rng(0)
    return send_update(
        vector(*update), [TopK(topk=share)], size, rng, None if residual is None else vector(*residual)
    )


class TestTopK:
    def test_sends_the_largest_magnitudes_and_keeps_the_rest(self):
        found = top((1, -4, 2, 0.5), 0.5)
        assert found.update.tolist() == [0, -4, 2, 0]
        assert found.residual.tolist() == [1, 0, 0, 0.5]
        assert found.num_bytes == 1 + 2 * 4, "four bits say which, two float32 are sent"

    def test_adds_what_was_not_sent_before(self):
        """1 + 1.5 is now among the largest."""
        found = top((1, -4, 2, 0.5), 0.5, (1.5, 0, 0, 0.5))
        assert found.update.tolist() == [2.5, -4, 0, 0]
        assert found.residual.tolist() == [0, 0, 2, 1]

    def test_of_equal_ones_the_first_are_sent(self):
        assert find_largest_places(vector(1, -2, 2, 2, 1), 2).tolist() == [1, 2]

    def test_buffers_are_sent_whole(self):
        found = top((1, -4, 7), 0.5, num_parameters=2)
        assert found.update.tolist() == [0, -4, 7]
        assert found.num_bytes == 1 + 4 + 4

    def test_a_share_of_one_is_the_update_itself(self):
        found = top((1, -4), 1.0)
        assert (found.update.tolist(), found.num_bytes, found.residual) == ([1, -4], 8, None)

    def test_an_update_that_is_not_finite_is_sent_as_it_is(self):
        found = top((1, np.nan), 0.5)
        assert (found.num_bytes, found.residual) == (8, None)
        assert np.isnan(found.update[1])


class TestQuantise:
    def test_bytes_are_those_of_the_encoding_and_of_whole_buffers(self):
        """10 parameters of 3 bits in 4 bytes, their two bounds in 8, a buffer in 4."""
        update = np.arange(11, dtype=np.float32)
        found = sent(update, Quantise(quantise=3), num_parameters=10)
        assert found.num_bytes == 4 + 8 + 4
        assert found.update[10] == 10, "the buffer"
        assert set(found.update[:10]) <= {np.float32(level * 9 / 7) for level in range(8)}

    def test_after_topk_only_what_is_sent_is_rounded(self):
        """2 places in a bitmap of a byte, 2 values of 1 bit in a byte, two bounds."""
        found = sent(vector(1, -4, 2, 0.5), TopK(topk=0.5), Quantise(quantise=1), num_parameters=4)
        assert found.update.tolist() == [0, -4, 2, 0]
        assert found.num_bytes == 1 + 1 + 8


def test_transforms_are_applied_in_their_order():
    """Clipped to 1, then doubled: (1.2, 1.6). Doubled first, clipped to 1: (0.6, 0.8)."""

    class Double(UplinkStep):
        double: bool = True

        def apply(self, sent, num_parameters, rng):
            return replace(sent, update=2 * sent.update, num_bytes=sent.num_bytes // 2)

    clipped_first = sent(vector(3, 4), Clip(clip=1.0), Double())
    assert clipped_first.update == pytest.approx([1.2, 1.6])
    assert clipped_first.num_bytes == 4
    assert sent(vector(3, 4), Double(), Clip(clip=1.0)).update == pytest.approx([0.6, 0.8])


class Scale(UplinkStep):
    """Multiplies an update, and pretends to need one byte."""

    scale: float

    def apply(self, sent, num_parameters, rng):
        return replace(sent, update=sent.update * np.float32(self.scale), num_bytes=1)


class Drawn(UplinkStep):
    """Replaces an update by random numbers."""

    noise: float

    def apply(self, sent, num_parameters, rng):
        return replace(sent, update=rng.normal(size=sent.update.size).astype(np.float32))


def trained(uplink, clients=(0,), round_index=0):
    """Return the replies of clients with the same images."""
    rng = np.random.default_rng(0)
    images = ImageSet(rng.integers(0, 256, (9, 1, 8, 8)).astype(np.uint8), rng.integers(0, 3, 9))
    data = tuple(ClientData(client, images, images) for client in clients)
    local = LocalTraining(batch_size=4, optimizer="sgd", learning_rate=0.1)
    parts = dict.fromkeys(clients, slice(0, 9))
    worker = ClientWorker(Setup("digitnet", 3, local, 11, data, images, parts, uplink=tuple(uplink)))
    tasks = [TrainTask(Order(client, (0,)), round_index, True, local_server=True) for client in clients]
    return worker.train(tasks, [draw_initial_vector("digitnet", image_inputs(1, 8, 8), 3, 11)], {})


class TestReports:
    """The server knows only what was sent; the locally trained model is what it is."""

    def test_norm_and_bytes_are_of_the_update_as_sent(self):
        (plain,), (clipped,) = trained([]), trained([Clip(clip=0.01)])
        assert plain.report.update_norm > 0.02
        assert clipped.report.update_norm == pytest.approx(0.01)
        assert clipped.update == pytest.approx(plain.update * 0.01 / plain.report.update_norm, rel=1e-5)
        assert plain.report.bytes_up == clipped.report.bytes_up == plain.update.nbytes
        assert trained([Scale(scale=2)])[0].report.bytes_up == 1

    @pytest.mark.parametrize(("scale", "usable"), [(1.0, True), (np.finfo(np.float32).max, False)])
    def test_usable_is_of_the_update_as_sent(self, scale, usable):
        (reply,) = trained([Scale(scale=float(scale))])
        assert reply.report.usable == usable

    def test_random_transforms_draw_by_client_and_round(self):
        first, second = trained([Drawn(noise=1)], clients=(0, 1))
        (alone,) = trained([Drawn(noise=1)], clients=(1,))
        (later,) = trained([Drawn(noise=1)], clients=(1,), round_index=1)
        assert second.update.tobytes() == alone.update.tobytes()
        assert len({each.update.tobytes() for each in (first, second, later)}) == 3


class TestConfig:
    def run(self, **given):
        return complete_config({"clients": 6, **given}, NOWHERE)

    def test_a_transform_is_another_run(self):
        plain, clipped, tighter = (
            self.run(**given) for given in ({}, {"uplink": [{"clip": 1.0}]}, {"uplink": [{"clip": 0.5}]})
        )
        assert clipped.uplink == (Clip(clip=1.0),)
        assert len({plain.run_id, clipped.run_id, tighter.run_id}) == 3
        assert len({plain.shared_prefix, clipped.shared_prefix, tighter.shared_prefix}) == 3

    def test_without_any_the_run_keeps_its_id(self):
        """The canonical form has no such key, as before there was one."""
        plain = self.run()
        assert "uplink" not in plain.canonical_json()
        assert self.run(uplink=[]).run_id == plain.run_id
