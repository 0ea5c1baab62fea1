"""Attacks on small runs of digits: closed forms, and invariants of what can be learnt at all."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.clustered.before_training.class_means import (
    compute_class_means,
    flip_bits,
    round_to_bits,
    scale_vector,
)
from fedgrid.engine.federation.clients.process import fix_numerics
from fedgrid.engine.federation.encoders.encoder import Encoder, decode_codes
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.uplink.ledger import compute_epsilon
from fedgrid.engine.runtime.run import checkpoint, pretraining
from fedgrid.engine.runtime.run.replay import ObservedRound, SentUpdate, observe_round
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.attack.analysis import run_attack
from fedgrid.grids.attack.classes import guess_by_partition, guess_classes, most_common
from fedgrid.grids.attack.inversion import invert_update
from fedgrid.grids.attack.membership import compute_auc, infer_membership
from fedgrid.grids.attack.reconstruction import CodeScale, find_nearest, mean_squared_error
from fedgrid.grids.attack.settings import AttackSettings
from tests.helpers.small_runs import NOWHERE, config, play, rows

LABELS = np.array([0, 0, 0, 1, 1, 2])


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """Return a run whose model remembers its images, and what its server has seen."""
    root = tmp_path_factory.mktemp("runs")
    run = config("ocfl-kmeans", training={"rounds": 4, "local_epochs": 20, "batch_size": 8})
    folder = play(run, root)
    before, after = (checkpoint.load_state(folder, number) for number in (3, 4))
    return run, root, observe_round(run, before, after, NOWHERE)


def norms(run, root):
    """Return client -> norm of its update in the last round, as recorded."""
    return {row["client"]: row["update_norm"] for row in rows(run, root, "clients")}


class TestObserved:
    def test_the_updates_of_the_last_round_are_those_of_the_records(self, attacked):
        run, root, observed = attacked
        assert {client: sent.norm for client, sent in observed.sent.items()} == norms(run, root)

    @pytest.mark.parametrize(
        ("algorithm", "given"),
        [
            ("fedavg", {"training": {"rounds": 1}, "faults": {"scale": {2: 10}}}),
            ("oracle", {"training": {"rounds": 2}, "drift": {0: {"round": 2, "to": 2}}}),
            ("ladd", {"training": {"rounds": 2}, "joins": {5: 2}}),
        ],
        ids=["from the initial model", "a client that has moved", "a newcomer of the last round"],
    )
    def test_the_updates_are_those_that_the_run_has_recorded(self, algorithm, given, tmp_path):
        run = config(algorithm, **given)
        folder, last = play(run, tmp_path), run.training.rounds
        before = checkpoint.load_state(folder, last - 1) if last > 1 else None
        observed = observe_round(run, before, checkpoint.load_state(folder, last), NOWHERE)
        assert {client: sent.norm for client, sent in observed.sent.items()} == norms(run, tmp_path)
        if run.drift:
            assert observed.select_images(0)[0] is observed.setup.clients[0].moved.train

    @pytest.mark.parametrize("noisy_encoder", [False, True])
    def test_clients_that_cannot_pay_for_the_round_are_not_trained_again(self, noisy_encoder, tmp_path):
        """Squared distances: an update 4, a message 4, one of the encoder's updates 100.

        Either the messages of round 2 leave nothing for its updates, or the clients that have trained the
        encoder cannot pay for round 1.
        """
        encoder = {"name": "dense", "federated": 1, "participation": 0.5, "clip": 1.0, "noise": 0.1}
        limit = compute_epsilon(8 if noisy_encoder else 14, 1e-5) * 1.001
        run = config(
            {
                "name": "embeddings",
                "encoder": encoder if noisy_encoder else "pixels",
                "recluster_every": 1,
                **{"quantise": False, "clip": 1.0, "noise": 0.5},
            },
            uplink=[{"clip": 1.0}, {"noise": 0.5}],
            privacy={"epsilon": limit},
            training={"rounds": 1 if noisy_encoder else 2},
        )
        folder = play(run, tmp_path)
        before = None if noisy_encoder else checkpoint.load_state(folder, 1)
        after = checkpoint.load_state(folder, run.training.rounds)
        recorded = rows(run, tmp_path, "clients")[-6:]
        sent = [row["client"] for row in recorded if row["part"] == "trained"]
        assert len(sent) == (3 if noisy_encoder else 0)
        [kept] = (tmp_path / pretraining.FOLDER).glob(f"*/{pretraining.FILE}")
        encoder_used = pretraining.load_encoder(Storage.from_text(tmp_path), kept.parent.name)
        observed = observe_round(run, before, after, NOWHERE, encoder_used)
        assert sorted(observed.sent) == sent

    def test_clients_alone_are_those_whose_cluster_has_no_other(self, attacked):
        observed = ObservedRound(*attacked[:1], *([None] * 2), LABELS, (), LABELS, {})
        assert observed.alone_K.tolist() == [False, False, False, False, False, True]


class TestMembership:
    def test_auc_is_the_probability_that_a_members_loss_is_smaller_ties_by_half(self):
        """Pairs (member, other): 1 < 2, 1 < 3, 2 = 2, 2 < 3: 3.5 of 4."""
        assert compute_auc(np.array([1.0, 2.0]), np.array([2.0, 3.0])) == 3.5 / 4
        assert compute_auc(np.array([np.inf]), np.array([0.0])) == 0
        assert compute_auc(np.array([1.0]), np.array([])) is None

    def test_models_that_remember_their_images_give_them_away(self, attacked):
        found = infer_membership(attacked[2])
        for of in ("model", "update"):
            assert np.mean([row["auc"] for row in found if row["of"] == of]) > 0.55

    def test_a_model_drowned_in_noise_gives_nothing_away(self, attacked):
        """The loss of a random model does not depend on membership: AUC 0.5, within 4 standard errors."""
        run, _, observed = attacked
        rng = np.random.default_rng(0)
        noisy = {
            client: SentUpdate(sent.start, rng.normal(0, 100, sent.update.shape).astype(np.float32), 0.0)
            for client, sent in observed.sent.items()
        }
        drowned = ObservedRound(
            run, observed.setup, observed.layout, observed.labels_K, observed.models, observed.model_K, noisy
        )
        found = [row for row in infer_membership(drowned) if row["of"] == "update"]
        variances = [1 / 12 * (1 / row["members"] + 1 / row["others"]) for row in found]
        error = np.sqrt(np.mean(variances) / len(found))
        assert abs(np.mean([row["auc"] for row in found]) - 0.5) < 4 * error

    def test_test_images_that_somebody_trains_on_are_no_others(self, tmp_path):
        run = config("fedavg", training={"rounds": 1}, split={"test_leakage": "published"})
        observed = observe_round(run, None, checkpoint.load_state(play(run, tmp_path), 1), NOWHERE)
        trained = {
            image.tobytes() for client in range(6) for image in observed.select_images(client)[0].images
        }
        [model, *updates] = infer_membership(observed)
        tests = [observed.select_images(client)[1].images for client in range(6)]
        unseen = [sum(image.tobytes() not in trained for image in images) for images in tests]
        assert [row["others"] for row in updates] == unseen
        assert sum(unseen) < sum(map(len, tests))
        assert model["members"] == len(trained)


class TestClasses:
    def test_the_guess_from_the_partition_is_that_of_the_other_members(self):
        """Client 0: others of its cluster have 7 and 7; client 3: 2; client 5, alone: most of all have 7."""
        majority_K = np.array([1, 7, 7, 3, 2, 7])
        guesses = [guess_by_partition(LABELS, majority_K, client) for client in (0, 3, 5)]
        assert guesses == [7, 2, 7]
        assert most_common([]) is None
        assert most_common([4, 2]) == 2

    def test_clients_of_one_class_in_clusters_of_their_class_are_all_guessed(self, attacked):
        run, _, observed = attacked
        found = guess_classes(observed)
        assert [row["client"] for row in found] == list(range(6))
        for row in found:
            counts_L = np.bincount(observed.select_images(row["client"])[0].labels, minlength=10)
            assert counts_L[row["majority"]] == counts_L.max()
            assert row["partition_right"] == (counts_L[row["partition"]] == counts_L.max())

    def test_a_head_that_is_not_sent_gives_no_guess(self, attacked):
        _, _, observed = attacked
        client, sent = next(iter(observed.sent.items()))
        update = sent.update.copy()
        update[-10:] = 0
        found = guess_classes(replace(observed, sent={client: replace(sent, update=update)}))
        assert {row["update"] for row in found} == {None}


def test_updates_of_zeros_are_not_attacked(attacked):
    _, _, observed = attacked
    zeros = {
        client: replace(sent, update=np.zeros_like(sent.update)) for client, sent in observed.sent.items()
    }
    rows, _ = run_attack(replace(observed, sent=zeros), AttackSettings(kind="membership"), None)
    assert {row["of"] for row in rows} == {"model"}


class TestReconstruction:
    def test_one_image_and_one_step_are_inverted_to_the_image(self):
        """The gradient of a softmax regression is an outer product with the image."""
        module = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
        image = np.random.default_rng(1).random((1, 1, 4, 4), np.float32)
        start = np.random.default_rng(0).normal(0, 0.2, 68).astype(np.float32)
        flat_vectors.write_vector(module, start)
        nn.functional.cross_entropy(module(torch.tensor(image)), torch.tensor([2])).backward()
        update = -0.1 * np.concatenate([part.grad.numpy().ravel() for part in module.parameters()])
        rng = np.random.default_rng(2)
        arguments = module, start, update, np.array([2]), np.array([1.0]), (1, 4, 4)
        with fix_numerics(tf32=False):
            found = invert_update(*arguments, 300, rng)
            again = invert_update(*arguments, 300, np.random.default_rng(2))
        assert (
            mean_squared_error(found, image)
            < 1e-3
            < mean_squared_error(np.random.default_rng(2).random(image.shape), image) / 50
        )
        assert found.tobytes() == again.tobytes()

    def test_with_half_of_the_bits_flipped_a_message_is_no_better_than_a_random_vector(self):
        """Codes are pixels. Mean errors of 400 messages of one class, within 4 standard errors."""
        encoder = Encoder("pixels", (1, 4, 4), {})
        rng = np.random.default_rng(0)
        truth = rng.random((1, 4, 4))
        scale = CodeScale(0.2, 0.8)
        errors = {
            name: [
                mean_squared_error(decode_codes(encoder, scale.to_codes(bits()[None]))[0], truth)
                for _ in range(400)
            ]
            for name, bits in {
                "half": lambda: flip_bits(round_to_bits(scale_vector(truth.ravel()), rng), 0.5, rng).astype(
                    np.float64
                ),
                "none": lambda: round_to_bits(scale_vector(truth.ravel()), rng).astype(np.float64),
                "random": lambda: rng.integers(2, size=16).astype(np.float64),
            }.items()
        }
        error = np.hypot(*(np.std(errors[name]) / 20 for name in ("half", "random")))
        assert abs(np.mean(errors["half"]) - np.mean(errors["random"])) < 4 * error
        assert np.mean(errors["none"]) < np.mean(errors["half"]) / 3

    def test_bits_stand_for_the_mean_codes_above_and_below_the_middle(self):
        """Class means 0, 1, 2 | 10, 8, 9; the middle is 5."""
        codes = torch.tensor([[0.0, 1, 2], [10, 8, 9]])
        scale = CodeScale.measure(compute_class_means(codes, torch.tensor([0, 2]), 3))
        assert scale.to_codes(np.array([0.0, 1.0])).tolist() == [1, 9]

    def test_the_nearest_image_is_the_one_with_the_least_error(self):
        held = np.array([[[[0.0, 0.0]]], [[[1.0, 0.5]]]])
        assert find_nearest(np.array([[[1.0, 1.0]]]), held) == (0.125, 1)
