"""Encoders are trained once, kept, and paid for in the run's traffic."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.encoders.encoder import STATE, encode_images
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.run import pretraining
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.small_runs import NOWHERE, config, play, read_numbers

SHORT = {"federated": 2, "local_epochs": 1, "batch_size": 16}
PARAMETERS = 65 * 50 + 51 * 20 + 21 * 50 + 51 * 64
HALF = 65 * 50 + 51 * 20
"""Of the dense autoencoder for 8 x 8 images, and of its encoder."""


def embeddings(encoder=None, split=None, **given):
    algorithm = {"name": "embeddings", "encoder": encoder or SHORT}
    return config(
        algorithm, split={"kind": "flipped", "num_clusters": 2, "draws": None, **(split or {})}, **given
    )


class Counting(InProcessPool):
    """Notes which models it trains."""

    def __init__(self):
        super().__init__()
        self.models = []

    def prepare(self, setup):
        self.models.append(setup.model)
        super().prepare(setup)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of three rounds, with its encoder; and the pool that it was in."""
    root, pool = tmp_path_factory.mktemp("runs"), Counting()
    return root, pool, play(embeddings(), root, pool)


def kept(root):
    [path] = (root / pretraining.FOLDER).glob(f"*/{pretraining.FILE}")
    return path


def test_encoder_is_trained_before_the_run_and_kept(finished):
    root, pool, folder = finished
    assert pool.models == ["autoencoder-dense", "digitnet"]
    encoder = pretraining.load_encoder(Storage(root), kept(root).parent.name)
    assert encoder.arrays[STATE].shape == (PARAMETERS,)
    assert len(encoder.losses) == 2
    assert encoder.losses[1] < encoder.losses[0]
    start = draw_initial_vector("autoencoder-dense", image_inputs(1, 8, 8), 1, seed=0)
    assert not np.array_equal(encoder.arrays[STATE], start)
    assert load_parts(folder)[0].made_with["encoder"] == encoder.id


def test_another_run_that_names_it_reuses_it(finished):
    root, _, _ = finished
    before, pool = kept(root).read_bytes(), Counting()
    play(embeddings(weights="images"), root, pool)
    assert "autoencoder-dense" not in pool.models
    assert kept(root).read_bytes() == before


def test_bytes_of_the_encoder_are_in_the_traffic_of_round_1(finished):
    """Two rounds of three of six clients, there and back; its half to six clients; 200 bits of each."""
    _, _, folder = finished
    rounds = pq.read_table(folder / "rounds.parquet").to_pydict()
    training = 2 * 3 * 4 * PARAMETERS
    assert rounds["encoder_bytes"] == [2 * training + 6 * 4 * HALF, 0, 0]
    assert rounds["message_bytes"] == [6 * 25, 0, 0]
    assert rounds["bytes_down"][0] - rounds["bytes_down"][1] == training + 6 * 4 * HALF
    assert rounds["bytes_up"][0] - rounds["bytes_up"][1] == training + 6 * 25


def test_timings_have_seconds_of_a_message_and_of_an_epoch(finished):
    timings = pq.read_table(finished[2] / "timings.parquet").to_pydict()
    assert timings["message_seconds"][0] > 0
    assert timings["message_seconds"][1:] == [None, None]
    assert all(seconds > 0 for seconds in timings["epoch_seconds"])


def test_run_that_goes_on_with_newcomers_has_the_same_bytes(tmp_path):
    """Interrupted after round 1; clients 4 and 5 join in round 2 and need the encoder again."""
    run = embeddings(joins={4: 2, 5: 2})
    whole = read_numbers(play(run, tmp_path / "whole"))
    play(run, tmp_path / "parts", until=1)
    assert read_numbers(play(run, tmp_path / "parts")) == whole


def test_damaged_encoder_is_trained_again(tmp_path):
    folder = play(embeddings(), tmp_path, until=1)
    path = kept(tmp_path)
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    with pytest.raises(DamagedFile):
        pretraining.load_encoder(Storage(tmp_path), path.parent.name)
    play(embeddings(), tmp_path)
    assert path.read_bytes() == right
    assert "trained again" in (folder / "log.txt").read_text()


def test_another_run_waits_for_the_one_that_trains_it(tmp_path, monkeypatch):
    """The first look finds nothing and the lock is held; the encoder comes while it waits."""
    play(embeddings(), tmp_path / "first", until=1)
    here = kept(tmp_path / "first")
    there = tmp_path / "second" / here.relative_to(tmp_path / "first")
    there.parent.mkdir(parents=True)
    held = pretraining.FOLDER, f"{here.parent.name}.lock"
    lock = pretraining.RoundLock((tmp_path / "second").joinpath(*held))
    assert lock.try_take()

    class Clock:
        @staticmethod
        def pause(seconds):
            there.write_bytes(here.read_bytes())

    monkeypatch.setattr(pretraining, "CLOCK", Clock)
    pool = Counting()
    play(embeddings(), tmp_path / "second", pool, until=1)
    lock.release()
    assert pool.models == ["digitnet"]


def opened_encoder(run, root, pool=None):
    session = Session(pool or InProcessPool(), NOWHERE)
    session.open(run, Storage.from_text(root))
    return session._run.federation.encoder


def test_reference_images_of_the_server_are_a_public_set(tmp_path):
    """They are upright in a federation of turned ones: the server does not know of its groups."""
    split = {"reference_images": 60}
    run = embeddings({"public": "reference", "epochs": 3}, split)
    encoder = opened_encoder(run, tmp_path)
    assert len(encoder.losses) == 3
    assert encoder.bytes_down == encoder.bytes_up == 0
    both = opened_encoder(embeddings({"public": "reference", "epochs": 3, **SHORT}, split), tmp_path)
    assert len(both.losses) == 5
    other_seed = opened_encoder(embeddings({"public": "reference", "epochs": 3}, split, seed=1), tmp_path)
    assert other_seed.id != encoder.id, "other seeds draw other reference images"


def test_pixels_and_principal_components_need_no_training(tmp_path):
    pool = Counting()
    pixels = opened_encoder(embeddings("pixels"), tmp_path, pool)
    split = {"reference_images": 60}
    pca = opened_encoder(embeddings({"name": "pca", "public": "reference"}, split), tmp_path, pool)
    assert pool.models == []
    images = np.zeros((1, 1, 8, 8), np.uint8)
    assert encode_images(pixels, images).shape == (1, 64)
    assert encode_images(pca, images).shape == (1, 20)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (
            {"encoder": {"public": "fmnist"}},
            ["encoder.public = fmnist", "1x28x28", "1x8x8", "dense", "federated"],
        ),
        ({"encoder": {"public": "digits"}}, ["encoder.public = digits", "own data set", "reference"]),
        ({"encoder": {"public": "reference"}}, ["encoder.public = reference", "split.reference_images"]),
        ({"encoder": {"public": "fmnst"}}, ["unknown dataset 'fmnst'", "fmnist"]),
        (
            {"encoder": {"name": "convolutional", "public": "cifar100"}},
            ["3x32x32", "1x8x8", "convolutional", "channels"],
        ),
        ({"encoder": {}}, ["encoder.public", "encoder.federated"]),
        ({"encoder": {"name": "pca", "federated": 3}}, ["pca", "public"]),
        ({"encoder": {"federated": -1}}, ["federated"]),
        ({"encoder": {"public": "fmnist", "epoch": 3}}, ["epoch"]),
        ({"flip": 0.6}, ["flip", "0.6 given", "0 to 0.5"]),
        ({"flip": [0.1, -0.1]}, ["flip", "0 to 0.5"]),
        ({"threshold": "best"}, ["threshold", "'best' given", "best-ch", "widest-gap"]),
        ({"threshold": -1.0}, ["threshold", "-1.0 given", "above 0"]),
    ],
)
def test_setting_that_is_impossible_is_refused_in_one_line(settings, parts):
    with pytest.raises(ConfigError) as error:
        complete_config({"algorithm": {"name": "embeddings", **settings}}, NOWHERE)
    assert "\n" not in str(error.value)
    assert [part for part in parts if part not in str(error.value)] == []
