"""Noise at the server, what does not go with noise, and whole runs with every step of the uplink."""

from math import inf

import numpy as np
import pytest

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.uplink.ledger import compute_epsilon
from fedgrid.engine.federation.uplink.privacy import CentralNoise
from tests.helpers.small_cases import build_updates
from tests.helpers.small_runs import (
    build_early_run,
    choose_optimizer,
    config,
    count_trained,
    find_differing,
    log,
    play,
    rows,
)

CLIPPED = [{"clip": 0.5}]
NOISY = [*CLIPPED, {"noise": 0.1}]
ALL_STEPS = [*NOISY, {"topk": 0.1}, {"quantise": 4}]


class TestCentralNoise:
    def noisy(self, multiplier=0.5, clip=2.0, size=40_000, shares=None, group=(0, 1, 2, 3), round_index=0):
        noise = CentralNoise(multiplier, clip, 0, round_index)
        return noise(np.zeros(size, np.float32), group, shares, "update"), noise.compute_distances()

    def test_of_a_mean_is_the_multiplier_times_the_clip_over_the_number_of_clients(self):
        """0.5 x 2 / 4; four standard errors of the deviation of 40,000 draws."""
        mean, spent = self.noisy()
        assert mean.std() == pytest.approx(0.25, abs=0.25 * 4 / np.sqrt(80_000))
        assert spent == dict.fromkeys(range(4), 2.0), "each moves the sum by the clip, two deviations"

    def test_of_a_weighted_mean_covers_the_heaviest_client(self):
        """Client 1 moves the mean by 3/4 of the clip, 2; client 0 by a third of that."""
        mean, spent = self.noisy(shares=(1.0, 3.0), group=(0, 1))
        assert mean.std() == pytest.approx(0.5 * 2 * 3 / 4, rel=0.02)
        assert spent == {0: pytest.approx(2 / 3), 1: 2.0}

    def test_of_the_same_mean_is_the_same_and_counts_once(self):
        noise, zero = CentralNoise(1.0, 1.0, 0, 0), np.zeros(3, np.float32)
        first, again = noise(zero, (0, 1), None, "update"), noise(zero, (0, 1), None, "update")
        assert first.tolist() == again.tolist()
        assert noise.compute_distances() == {0: 1.0, 1: 1.0}
        noise(zero, (1, 2), None, "update")
        assert noise.compute_distances() == {0: 1.0, 1: pytest.approx(np.sqrt(2)), 2: 1.0}

    def test_draws_by_group_and_round(self):
        draws = {
            self.noisy(size=3, group=group, round_index=number)[0].tobytes()
            for group in ((0, 1), (0, 2))
            for number in (0, 1)
        }
        assert len(draws) == 4

    def test_is_in_every_mean_of_updates_also_of_a_part_of_them(self):
        noise = CentralNoise(1.0, 1.0, 0, 0)
        updates = build_updates({0: [1, 0], 1: [3, 0], 2: [5, 0]}, noise=noise)
        whole, part = updates.mean(), updates.select([0, 1]).mean()
        assert whole != pytest.approx([3, 0])
        assert part != pytest.approx([2, 0])
        assert set(noise.compute_distances()) == {0, 1, 2}
        assert updates.norms_K.tolist() == [1, 3, 5], "what the trusted server compares"

    def test_refuses_what_no_clip_bounds(self):
        with pytest.raises(ValueError, match="variate"):
            CentralNoise(1.0, 1.0, 0, 0)(np.zeros(2, np.float32), (0,), None, "variate")


CENTRAL = {"uplink": CLIPPED, "privacy": {"central_noise": 1.0}}


def last(run, root, *columns):
    """Return, by client, these columns of the last round."""
    of_round = [row for row in rows(run, root, "clients") if row["round"] == run.training.rounds]
    return [tuple(row[column] for column in columns) for row in of_round]


class TestRuns:
    def test_epsilon_is_in_the_records_where_there_is_noise(self, tmp_path):
        run = config("fedavg", uplink=ALL_STEPS, participation=0.5, evaluation={"every": 3})
        play(run, tmp_path, cache=None)
        parts = rows(run, tmp_path, "clients")
        sent = [
            sum(row["part"] == "trained" for row in parts if row["client"] == client) for client in range(6)
        ]
        assert len(set(sent)) > 1, "else it says nothing on sampling"
        expected = [compute_epsilon(times / 0.1**2, 1e-5) for times in sent]
        assert [found for (found,) in last(run, tmp_path, "epsilon")] == pytest.approx(expected)
        together = compute_epsilon(sum(sent) / 0.1**2, 1e-5)
        assert last(run, tmp_path, "cluster_epsilon") == [pytest.approx((together,))] * 6
        assert rows(run, tmp_path, "rounds")[-1]["epsilon"] == pytest.approx(max(expected))

    def test_bytes_up_are_those_of_the_encoding(self, tmp_path):
        """21,674 parameters: a bitmap of 2,710 bytes, 2,168 values of 4 bits, 5 buckets of 8 bytes."""
        run = config("fedavg", uplink=ALL_STEPS, evaluation={"every": 3})
        play(run, tmp_path, cache=None)
        assert {row["bytes_up"] for row in rows(run, tmp_path, "rounds")} == {6 * (2710 + 1084 + 40)}

    def test_the_round_cache_changes_nothing(self, tmp_path):
        """The second run takes its rounds from the first one: those of an algorithm that acts too late."""
        for algorithm in ("fedavg", {"name": "briggs", "round": 9}):
            run = config(algorithm, uplink=ALL_STEPS, evaluation={"every": 3})
            play(run, tmp_path)
            assert not find_differing(run, tmp_path)
        assert count_trained(run, tmp_path) == [0, 0, 0]

    def test_a_client_with_a_spent_budget_sends_nothing_and_a_newcomer_goes_on(self, tmp_path):
        """Two rounds are within the budget, three are not; client 5 joins in the second one."""
        limit = (compute_epsilon(2 / 0.1**2, 1e-5) + compute_epsilon(3 / 0.1**2, 1e-5)) / 2
        run = config(
            "fedavg", uplink=NOISY, privacy={"epsilon": limit}, joins={5: 2}, evaluation={"every": 3}
        )
        for until in (2, None):
            play(run, tmp_path, cache=None, until=until)
        parts = {(row["round"], row["client"]): row["part"] for row in rows(run, tmp_path, "clients")}
        assert [parts[number, 0] for number in (1, 2, 3)] == ["trained", "trained", "spent"]
        assert [parts[number, 5] for number in (1, 2, 3)] == ["not joined", "trained", "trained"]
        of_rounds = rows(run, tmp_path, "rounds")
        assert of_rounds[2]["bytes_up"] * 6 == of_rounds[1]["bytes_up"]
        assert last(run, tmp_path, "epsilon") == [pytest.approx((compute_epsilon(2 / 0.1**2, 1e-5),))] * 6
        line, *_ = [line for line in log(run, tmp_path) if "budget" in line]
        assert line.endswith(
            "5 of the 6 sampled clients have spent their budget of epsilon "
            f"{limit:g}: they send nothing from now on"
        )
        assert not find_differing(run, tmp_path)

    @pytest.mark.parametrize(
        ("algorithm", "budget", "says"),
        [
            ("fedavg", 8, "privacy.epsilon = 8: no client can pay for round 1: .* 96.1 after"),
            ("ifca", 1e6, "inf after it; no noise covers what they send"),
        ],
    )
    def test_a_budget_below_the_first_round_is_an_error_that_names_both(
        self, algorithm, budget, says, tmp_path
    ):
        run = build_early_run(algorithm, uplink=NOISY, privacy={"epsilon": budget})
        with pytest.raises(RunError, match=says):
            play(run, tmp_path, cache=None)

    def test_a_message_and_an_encoder_under_noise_have_a_finite_epsilon(self, tmp_path):
        """Each client: an update (0.1), a message (0.5), two updates of the encoder (0.25)."""
        encoder = {"federated": 2, "participation": 1.0, "clip": 1.0, "noise": 0.25, "local_epochs": 1}
        settings = {"encoder": encoder, "quantise": False, "clip": 3.0, "noise": 0.5}
        run = config({"name": "embeddings", **settings}, uplink=NOISY, training={"rounds": 1})
        play(run, tmp_path, cache=None)
        spent = 1 / 0.1**2 + 1 / 0.5**2 + 2 / 0.25**2
        assert last(run, tmp_path, "epsilon") == [pytest.approx((compute_epsilon(spent, 1e-5),))] * 6

    def test_noise_at_the_server_leaves_what_it_clusters_and_changes_its_models(self, tmp_path):
        central = {**CENTRAL, "privacy": {"central_noise": 0.1}}
        noisy, plain = (config("oracle", **given) for given in (central, {"uplink": CLIPPED}))
        for run in (noisy, plain):
            play(run, tmp_path)
        assert last(noisy, tmp_path, "cluster") == last(plain, tmp_path, "cluster")
        assert last(noisy, tmp_path, "personalised_loss") != last(plain, tmp_path, "personalised_loss")
        spent = 3 / 0.1**2, 3 * (2 / 0.1) ** 2  # Three rounds; of two members a cluster.
        expected = pytest.approx([compute_epsilon(each, 1e-5) for each in spent])
        assert [list(found) for found in last(noisy, tmp_path, "epsilon", "cluster_epsilon")] == [
            expected
        ] * 6
        assert not find_differing(noisy, tmp_path)


TELLING = ("ifca", "flis-dc")
"""Their clients tell which model they chose."""
OWN = [*TELLING, "flis-hc", "scaffold", "fednova", "lg-fedavg", "per-fedavg", "louvain", "solo", "sattler"]
"""Algorithms whose orders, rules or means are their own; the others differ in the partition only."""


@pytest.mark.parametrize("name", OWN)
def test_algorithms_take_every_step(name, tmp_path):
    training = {**choose_optimizer(name), "rounds": 2}
    run = build_early_run(name, uplink=ALL_STEPS, training=training, evaluation={"every": 9})
    play(run, tmp_path, cache=None)
    releases = {"scaffold": 4, "solo": 0}.get(name, 2)
    expected = inf if name in TELLING else compute_epsilon(releases / 0.1**2, 1e-5)
    assert last(run, tmp_path, "epsilon") == [pytest.approx((expected,))] * 6
