"""Attackers: what they train on, what they send, what the records say of it."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import TrainTask
from fedgrid.engine.federation.configuration.faults import Faults
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.round_cache.key import digest_setup
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_runs import NOWHERE, config, play, rows

SHAPE = (1, 8, 8)


def updates(**given):
    """Return each client's update, and the report of it, in round 1."""
    run = config("fedavg", **given)
    pool = InProcessPool()
    pool.prepare(prepare_setup(run, NOWHERE)[0])
    model = draw_initial_vector("digitnet", image_inputs(*SHAPE), 10, run.root_seed, 0)
    tasks = [TrainTask(Order(client, (0,)), 0, evaluate=False) for client in range(run.clients)]
    return [(reply.update, reply.report) for reply in pool.train(tasks, [model], {})]


def test_label_flips_are_of_training_images_of_the_attackers_alone():
    """A label y of ten becomes 9 - y."""
    honest, attacked = (
        prepare_setup(config(**given), NOWHERE)[0].clients for given in ({}, {"faults": {"label_flip": [3]}})
    )
    for before, after in zip(honest, attacked, strict=True):
        expected = 9 - before.train.labels if before.client == 3 else before.train.labels
        assert after.train.labels.tolist() == expected.tolist()
        assert np.array_equal(after.train.images, before.train.images)
        assert after.test.labels.tolist() == before.test.labels.tolist()


def test_noisy_labels_are_a_share_of_the_training_labels_of_their_clients():
    """Of 30 % drawn anew, a tenth gets its own label again: 27 % differ. Images and tests stay."""
    honest, noisy = (
        prepare_setup(config(**given), NOWHERE)[0].clients
        for given in ({}, {"faults": {"label_noise": {3: 0.3, 5: 1}}})
    )
    for before, after in zip(honest, noisy, strict=True):
        share = {3: 0.3, 5: 1.0}.get(before.client, 0.0)
        differ = (after.train.labels != before.train.labels).mean()
        assert differ <= share
        assert differ == pytest.approx(0.9 * share, abs=0.06)
        assert np.array_equal(after.train.images, before.train.images)
        assert after.test.labels.tolist() == before.test.labels.tolist()
        assert after.fault == (f"label_noise {share:g}" if share else "")


def test_updates_are_multiplied_as_they_are_sent_and_those_of_honest_clients_keep_their_bits():
    """Client 1 flips signs, client 2 sends ten times its update, client 4 minus three times its update."""
    honest = updates()
    attacked = updates(faults={"sign_flip": [1, 4], "scale": {2: 10, 4: 3}})
    for client, ((before, report), (after, attack)) in enumerate(zip(honest, attacked, strict=True)):
        factor = {1: -1, 2: 10, 4: -3}.get(client, 1)
        assert after.tobytes() == (before * np.float32(factor)).tobytes()
        assert attack.update_norm == pytest.approx(abs(factor) * report.update_norm, rel=1e-6)
        assert (attack.train_loss, attack.bytes_up) == (report.train_loss, report.bytes_up)


def test_an_attacker_does_not_obey_the_clip():
    clipped = updates(uplink=[{"clip": 1e-3}], faults={"scale": {2: 10}})
    norms = [report.update_norm for _, report in clipped]
    assert norms == pytest.approx([1e-3, 1e-3, 1e-2, 1e-3, 1e-3, 1e-3], rel=1e-5)


def test_what_is_not_sent_is_not_multiplied():
    faults = {"label_flip": [0], "scale": {2: 10}}
    clients = prepare_setup(config("solo", faults=faults), NOWHERE)[0].clients
    assert [data.factor for data in clients] == [1.0] * 6
    assert [data.fault for data in clients] == ["label_flip", "", "scale 10", "", "", ""]


def test_records_name_the_attackers_and_records_of_other_runs_have_no_such_column(tmp_path):
    attacked = config("fedavg", faults={"sign_flip": [2], "scale": {2: 10}, "label_flip": [5]})
    play(attacked, tmp_path)
    named = {(row["client"], row["fault"]) for row in rows(attacked, tmp_path, "clients")}
    assert named == {(2, "sign_flip, scale 10"), (5, "label_flip"), *((k, None) for k in (0, 1, 3, 4))}
    honest = config("fedavg")
    play(honest, tmp_path)
    assert "fault" not in rows(honest, tmp_path, "clients")[0]


@pytest.mark.parametrize(
    "faults", [{"label_flip": [3]}, {"label_noise": {3: 0.5}}, {"sign_flip": [3]}, {"scale": {3: 2}}], ids=str
)
def test_every_fault_is_part_of_the_run_and_of_the_round_caches_key(faults):
    honest, attacked = config(), config(faults=faults)
    assert honest.run_id != attacked.run_id
    keys = {digest_setup(prepare_setup(run, NOWHERE)[0], {}) for run in (honest, attacked)}
    assert len(keys) == 2


def test_no_faults_are_written_nowhere_and_the_order_of_clients_does_not_matter():
    assert config(faults={}).run_id == config(faults={"label_flip": []}).run_id == config().run_id
    assert "faults" not in config(faults={}).written()
    one, other = (config(faults={"label_flip": given}) for given in ([3, 1], [1, 3]))
    assert one.run_id == other.run_id
    assert one.written()["faults"] == {"label_flip": [1, 3]}


def test_a_client_may_have_several_faults():
    faults = Faults(label_flip=(1,), sign_flip=(1,), scale={1: 2.5})
    assert (faults.factor(1), faults.name(1)) == (-2.5, "label_flip, sign_flip, scale 2.5")
    assert (faults.factor(0), faults.name(0), faults.attackers) == (1.0, "", {1})
