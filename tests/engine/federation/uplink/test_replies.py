"""What of a client's reply reaches the server: personal entries, and the arrays of a local rule."""

from typing import ClassVar

import numpy as np
import pytest

from fedgrid.algorithms.averaging.fednova import NORMALISER, NormalisedRule
from fedgrid.algorithms.averaging.scaffold import CHANGE, ScaffoldRule
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.algorithms.updates.source import UPDATE, Layout
from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.federation.uplink.replies import RESIDUAL, collect_residuals, send_reply
from fedgrid.engine.federation.uplink.steps import Clip, Noise, Quantise, TopK

SCAFFOLD = ScaffoldRule()
NOISY = (Clip(clip=1.0), Noise(noise=0.5))


def reply(trained, uplink=(), rule=PLAIN, outputs=None, memory=None, client=0, round_index=0):
    return send_reply(
        np.array(trained, np.float32),
        outputs or {},
        rule,
        memory or {},
        uplink,
        Layout(("weight",), ((len(trained),),), len(trained)),
        lambda purpose: make_generator(7, purpose, client=client, round_index=round_index),
    )


def update_of(sent):
    return sent[UPDATE].update


def bytes_of(sent):
    return sum(array.num_bytes for array in sent.values())


class TestPersonalEntries:
    RULE = LocalRule(personal=((0, 2),))

    def test_are_neither_sent_nor_counted(self):
        sent = reply([0, 0, 3, 4], rule=self.RULE)
        assert update_of(sent).tolist() == [0, 0, 3, 4]
        assert bytes_of(sent) == 8

    def test_count_in_no_share(self):
        """Half of the two shared entries is one."""
        assert update_of(reply([0, 0, 3, 4], [TopK(topk=0.5)], self.RULE)).tolist() == [0, 0, 0, 4]

    @pytest.mark.parametrize("uplink", [NOISY, [TopK(topk=0.5), Quantise(quantise=1)]])
    def test_may_be_all(self, uplink):
        sent = reply([0, 0], uplink, self.RULE)
        assert (update_of(sent).tolist(), bytes_of(sent)) == ([0, 0], 0)


class TestArrays:
    VARIATE = np.array([3, 4], np.float32)

    def sent(self, uplink, rule=SCAFFOLD, name=CHANGE, array=VARIATE, **given):
        sent = reply([0.6, 0.8], uplink, rule, {name: array}, **given)
        return sent, sent[name].update

    @pytest.mark.parametrize("uplink", [(), (Clip(clip=1.0),)])
    def test_pass_where_the_uplink_at_most_clips(self, uplink):
        sent, variate = self.sent(uplink)
        assert variate.tolist() == [3, 4]
        assert bytes_of(sent) == 16

    def test_are_clipped_and_get_noise_of_their_own(self):
        _, variate = self.sent((Clip(clip=1.0), Noise(noise=1e-6)))
        assert variate == pytest.approx([0.6, 0.8], abs=1e-4)
        sent, variate = self.sent(NOISY)
        assert variate.tolist() != update_of(sent).tolist(), "else one could be subtracted from the other"

    def test_are_encoded_and_counted_as_encoded(self):
        """A bit and an entry, twice; the bounds of a bucket."""
        sent, variate = self.sent([TopK(topk=0.5)])
        assert variate.tolist() == [0, 4]
        assert bytes_of(sent) == 2 * (1 + 4)
        assert set(collect_residuals(sent)) == {RESIDUAL, f"{RESIDUAL}/{CHANGE}"}
        assert self.sent([TopK(topk=0.5)], memory=collect_residuals(sent))[1].tolist() == [6, 0]

    def test_that_tell_only_the_number_of_images_pass(self):
        steps = np.array([9], np.float32)
        sent, received = self.sent(NOISY, NormalisedRule(mu=0), NORMALISER, steps)
        assert received.tolist() == [9]
        assert bytes_of(sent) == 12

    def test_that_noise_cannot_cover_are_refused_by_name(self):
        class Counts(LocalRule):
            outputs: ClassVar[tuple[str, ...]] = ("seen",)

        with pytest.raises(FinalError, match="Counts sends seen as int64.*public"):
            self.sent(NOISY, Counts(), "seen", np.array([1]))
        assert self.sent([Quantise(quantise=1)], Counts(), "seen", np.array([1]))[1].tolist() == [1]


def test_draws_are_of_the_client_and_the_round():
    draws = {
        update_of(reply([0.0] * 4, NOISY, client=client, round_index=number)).tobytes()
        for client in (0, 1)
        for number in (0, 1)
    }
    assert len(draws) == 4
    assert update_of(reply([0.0] * 4, NOISY)).tobytes() in draws
