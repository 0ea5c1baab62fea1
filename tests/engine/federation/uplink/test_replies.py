"""What of a client's reply reaches the server: personal entries, and the arrays of a local rule."""

from typing import ClassVar

import numpy as np
import pytest

from fedgrid.algorithms.averaging.fednova import NORMALISER, NormalisedRule
from fedgrid.algorithms.averaging.scaffold import CHANGE, ScaffoldRule
from fedgrid.algorithms.contract.local_rule import PLAIN, LocalRule
from fedgrid.engine.federation.uplink.replies import RESIDUAL, send_reply
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
        len(trained),
        7,
        client=client,
        round_index=round_index,
    )


class TestPersonalEntries:
    RULE = LocalRule(personal=((0, 2),))

    def test_are_neither_sent_nor_counted(self):
        found = reply([0, 0, 3, 4], rule=self.RULE)
        assert found.update.tolist() == [0, 0, 3, 4]
        assert found.num_bytes == 8

    def test_get_no_noise(self):
        assert reply([0, 0, 3, 4], NOISY, self.RULE).update[:2].tolist() == [0, 0]

    def test_count_in_no_share(self):
        """Half of the two shared entries is one."""
        assert reply([0, 0, 3, 4], [TopK(topk=0.5)], self.RULE).update.tolist() == [0, 0, 0, 4]

    @pytest.mark.parametrize("uplink", [NOISY, [TopK(topk=0.5), Quantise(quantise=1)]])
    def test_may_be_all(self, uplink):
        found = reply([0, 0], uplink, self.RULE)
        assert (found.update.tolist(), found.num_bytes) == ([0, 0], 0)


class TestArrays:
    VARIATE = np.array([3, 4], np.float32)

    def sent(self, uplink, rule=SCAFFOLD, name=CHANGE, array=VARIATE, **given):
        found = reply([0.6, 0.8], uplink, rule, {name: array}, **given)
        return found, found.outputs[name]

    @pytest.mark.parametrize("uplink", [(), (Clip(clip=1.0),)])
    def test_pass_where_the_uplink_at_most_clips(self, uplink):
        found, variate = self.sent(uplink)
        assert variate.tolist() == [3, 4]
        assert found.num_bytes == 16

    def test_are_clipped_and_get_noise_of_their_own(self):
        _, variate = self.sent((Clip(clip=1.0), Noise(noise=1e-6)))
        assert variate == pytest.approx([0.6, 0.8], abs=1e-4)
        found, variate = self.sent(NOISY)
        assert variate.tolist() != found.update.tolist(), "else one could be subtracted from the other"

    def test_are_encoded_and_counted_as_encoded(self):
        """A bit and an entry, twice; the bounds of a bucket."""
        found, variate = self.sent([TopK(topk=0.5)])
        assert variate.tolist() == [0, 4]
        assert found.num_bytes == 2 * (1 + 4)
        assert set(found.residuals) == {RESIDUAL, f"{RESIDUAL}/{CHANGE}"}
        assert self.sent([TopK(topk=0.5)], memory=found.residuals)[1].tolist() == [6, 0]

    def test_that_tell_only_the_number_of_images_pass(self):
        steps = np.array([9], np.float32)
        found, received = self.sent(NOISY, NormalisedRule(mu=0), NORMALISER, steps)
        assert received.tolist() == [9]
        assert found.num_bytes == 12

    def test_that_noise_cannot_cover_are_refused_by_name(self):
        class Counts(LocalRule):
            outputs: ClassVar[tuple[str, ...]] = ("seen",)

        with pytest.raises(ValueError, match="seen as int64.*public"):
            self.sent(NOISY, Counts(), "seen", np.array([1]))
        assert self.sent([Quantise(quantise=1)], Counts(), "seen", np.array([1]))[1].tolist() == [1]


def test_draws_are_of_the_client_and_the_round():
    draws = {
        reply([0.0] * 4, NOISY, client=client, round_index=number).update.tobytes()
        for client in (0, 1)
        for number in (0, 1)
    }
    assert len(draws) == 4
    assert reply([0.0] * 4, NOISY).update.tobytes() in draws
