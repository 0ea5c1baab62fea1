"""Whole runs on scikit-learn's digits in this process: a few clients, a few images, three rounds."""

import os
from errno import EDQUOT, ENOSPC

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from fedgrid.engine.federation.clients.process import measure_own_peak
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.record_names import PROBABILITY_SCORES, SCORES, TESTS
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.data.datasets import load_with_digest
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run import prepare as run_setup
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage import atomic
from fedgrid.engine.runtime.storage.remote import Remote
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import read_manifest
from tests.helpers.manifests import list_files
from tests.helpers.small_runs import NOWHERE, ROUNDS, config, read_numbers


def session():
    return Session(InProcessPool(), NOWHERE)


def finish(run, storage, opened=None):
    """Take a run to its end; return its folder."""
    opened = opened or session()
    for _ in range(opened.open(run, Storage.from_text(storage)), run.training.rounds):
        opened.next_round()
    return build_folder_path(storage, run)


def rows(folder, name="rounds"):
    return pq.read_table(folder / f"{name}.parquet").to_pylist()


def test_a_run_from_start_to_end(tmp_path):
    run = config()
    folder = finish(run, tmp_path)
    done = read_manifest(folder)
    assert (done.run_id, done.rounds, done.is_finished) == (run.run_id, ROUNDS, True)
    assert [row["round"] for row in rows(folder)] == [1, 2, 3]
    assert [(row["round"], row["client"]) for row in rows(folder, "clients")] == [
        (number, client) for number in (1, 2, 3) for client in range(6)
    ]
    assert [row["round"] for row in rows(folder, "timings")] == [1, 2, 3]
    assert [*done.states] == [ROUNDS - 1, ROUNDS]


def test_the_records_tell_who_held_what(tmp_path):
    """Six clients in three balanced groups are two each; the test set is 30 % of the images, rounded up."""
    run = config(split={"test_leakage": "published"})
    folder = finish(run, tmp_path)
    first = rows(folder, "clients")[:6]
    assert [row["true_cluster"] for row in first] == [0, 0, 1, 1, 2, 2]
    setup, truth_K = prepare_setup(run, NOWHERE)
    assert truth_K.tolist() == [0, 0, 1, 1, 2, 2]
    for row, data in zip(first, setup.clients, strict=True):
        assert (row["train_images"], row["test_images"]) == (len(data.train), len(data.test))
        images = len(data.train) + len(data.test)
        assert len(data.test) == int(np.ceil(0.3 * images))
        assert len(row["local_own_recall"]) == 10


def test_the_servers_test_set_is_tiled_by_the_clients():
    setup, _ = prepare_setup(config(clients=7), NOWHERE)
    covered = np.concatenate([np.arange(50)[setup.server_parts[client]] for client in range(7)])
    assert covered.tolist() == list(range(50))


def test_a_finished_run_opens_as_finished(tmp_path):
    """One that was killed between its last round and its end, too."""
    folder = finish(config(), tmp_path)
    before = read_numbers(folder)
    assert session().open(config(), Storage.from_text(tmp_path)) == ROUNDS
    assert read_numbers(folder) == before
    list_files(folder, is_finished=False)
    assert session().open(config(), Storage.from_text(tmp_path)) == ROUNDS
    assert read_numbers(folder) == before
    assert read_manifest(folder).is_finished


def test_a_run_that_takes_a_client_from_the_next_one_leaves_nothing_behind(tmp_path):
    """One session, three runs: the last is the first again, elsewhere."""
    opened = session()
    first = finish(config(), tmp_path / "one", opened)
    finish(config(clients=3, model="tinyvgg", seed=4, training={"momentum": 0.9}), tmp_path / "one", opened)
    assert read_numbers(finish(config(), tmp_path / "two", opened)) == read_numbers(first)


@pytest.mark.parametrize(
    ("given", "more", "columns"),
    [
        (
            {"evaluation": {"local_server": False}},
            {"local_server": True},
            [f"local_server_{score}" for score in SCORES],
        ),
        (
            {"algorithm": "louvain"},
            {"global_model": True},
            [f"{test}_{score}" for test in ("global_own", "global") for score in SCORES],
        ),
        (
            {
                "algorithm": {"name": "fine-tuned", "fine_tune": 3},
                "training": {"stacked": 2},
                "evaluation": {"local_server": True},
            },
            {"probabilities": True},
            [f"{test}_{score}" for test in TESTS for score in PROBABILITY_SCORES],
        ),
    ],
    ids=["local models on the server's set", "the global model", "probabilities"],
)
def test_further_tests_change_no_other_number(tmp_path, given, more, columns):
    """The run with them is resumed after a round."""
    plain, tested = (
        config(**{**given, "evaluation": {**given.get("evaluation", {}), **added}}) for added in ({}, more)
    )
    cut = session()
    cut.open(tested, Storage.from_text(tmp_path))
    cut.next_round()
    without, with_more = (finish(run, tmp_path) for run in (plain, tested))
    assert repr(rows(without)) == repr(rows(with_more))
    for one, other in zip(rows(without, "clients"), rows(with_more, "clients"), strict=True):
        assert [name for name in other if repr(one.get(name)) != repr(other[name])] == columns
        assert None not in [other[name] for name in columns]
    states = [load_file(folder / "state-000003.safetensors") for folder in (without, with_more)]
    assert states[0].keys() == states[1].keys()
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])


def test_testing_only_the_clients_that_are_asked_changes_no_other_number(tmp_path):
    everybody, asked = (
        finish(config(participation=0.5, evaluation={"clients": who}), tmp_path) for who in ("all", "asked")
    )
    assert repr(rows(everybody, "rounds")) == repr(rows(asked, "rounds"))
    for one, other in zip(rows(everybody, "clients"), rows(asked, "clients"), strict=True):
        there = other["part"] != "not asked"
        assert (other["personalised_accuracy"] is not None) == there
        assert (other["generalised_accuracy"] is not None) == there
        assert one["personalised_accuracy"] is not None
        if there:
            assert repr(one) == repr(other)


class Broken(InProcessPool):
    """Sends the clients a model of three entries in round 2."""

    def train(self, tasks, models, memories):
        if tasks[0].round_index == 1:
            models = [np.zeros(3, np.float32)] * len(models)
        return super().train(tasks, models, memories)


def test_an_error_in_a_clients_training_is_named_and_the_run_goes_on_after_it(tmp_path):
    opened = Session(Broken(), NOWHERE)
    opened.open(config(), Storage.from_text(tmp_path / "broken"))
    opened.next_round()
    with pytest.raises(RunError, match=r"^client 0, round 2: ValueError: .* shape \(3,\)") as error:
        opened.next_round()
    assert "\n" not in str(error.value)
    folder = build_folder_path(tmp_path / "broken", config())
    assert read_manifest(folder).rounds_done == 1
    assert "Traceback" in (folder / "log.txt").read_text(), "for who mends it"
    assert read_numbers(finish(config(), tmp_path / "broken")) == read_numbers(
        finish(config(), tmp_path / "whole")
    )


def test_writing_behind_leaves_the_same_files(tmp_path):
    """The last round is waited for: once it is returned, everything is there."""
    run = config()
    behind = finish(run, tmp_path / "behind", Session(InProcessPool(), NOWHERE, write_behind=True))
    assert read_numbers(behind) == read_numbers(finish(run, tmp_path / "before"))


def full(monkeypatch, after):
    """Let the disk be full for every round but the first `after`."""
    saved = RunFolder.save_rounds

    def save(folder, rounds):
        with monkeypatch.context() as patch:
            if rounds[-1][1].rounds_done > after:
                patch.setattr(atomic, "flush_to_disk", refuse)
            saved(folder, rounds)

    def refuse(path):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(RunFolder, "save_rounds", save)


def test_a_round_that_could_not_be_written_stops_the_run_in_the_next(tmp_path, monkeypatch):
    """Round 2 is lost, round 3 not kept upon it: the run continues after round 1, to the same numbers."""
    run, opened = config(), Session(InProcessPool(), NOWHERE, write_behind=True)
    opened.open(run, Storage.from_text(tmp_path / "full"))
    with monkeypatch.context() as patch:
        full(patch, after=1)
        for _ in range(2):
            opened.next_round()
        with pytest.raises(RunError, match=r"^the disk of .* is full; free some space"):
            opened.next_round()
    assert read_manifest(build_folder_path(tmp_path / "full", run)).rounds_done == 1
    assert read_numbers(finish(run, tmp_path / "full")) == read_numbers(finish(run, tmp_path / "undisturbed"))


@pytest.mark.parametrize(
    ("name", "number"),
    [("state-000002.safetensors", ENOSPC), ("rounds.parquet", EDQUOT), ("manifest.json", ENOSPC)],
)
def test_round_cache_gives_way_to_a_write_on_a_full_disk(tmp_path, monkeypatch, name, number):
    """The disk is full as long as there are entries in the round cache: the write is tried once more."""
    run, root, refused = config(), tmp_path / "full", []
    real = atomic.flush_to_disk

    def flush(path):
        if path.name.startswith(name) and list(root.glob("cache/*/*.safetensors")):
            refused.append(path)
            raise OSError(number, os.strerror(number))
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "flush_to_disk", flush)
        folder = finish(run, root, Session(InProcessPool(), NOWHERE, cache=CacheOptions()))
    assert len(refused) >= 1
    assert read_numbers(folder) == read_numbers(finish(run, tmp_path / "undisturbed"))


def test_a_run_that_is_left_can_be_waited_for(tmp_path, monkeypatch):
    run, opened = config(), Session(InProcessPool(), NOWHERE, write_behind=True)
    opened.open(run, Storage.from_text(tmp_path))
    opened.next_round()
    opened.wait_for_writes()
    assert read_manifest(build_folder_path(tmp_path, run)).rounds_done == 1
    with monkeypatch.context() as patch:
        full(patch, after=1)
        opened.next_round()
        with pytest.raises(RunError, match=r"^the disk of .* is full"):
            opened.wait_for_writes()
    opened.wait_for_writes()


def test_what_went_wrong_with_a_run_that_was_left_is_not_the_next_ones(tmp_path, monkeypatch):
    opened = Session(InProcessPool(), NOWHERE, write_behind=True)
    opened.open(config(), Storage.from_text(tmp_path))
    with monkeypatch.context() as patch:
        full(patch, after=0)
        opened.next_round()
        assert opened.open(config(seed=1), Storage.from_text(tmp_path)) == 0
    assert opened.next_round().round["round"] == 1


def test_images_are_read_once_for_runs_of_one_data_set(tmp_path, monkeypatch):
    read = []
    run_setup._load_images.cache_clear()
    monkeypatch.setattr(
        run_setup,
        "load_with_digest",
        lambda name, folder: read.append(name) or load_with_digest(name, folder),
    )
    opened = session()
    for run in (config(), config(seed=1), config(clients=7, algorithm="ocfl-kmeans")):
        opened.open(run, Storage.from_text(tmp_path))
    assert read == ["digits"]


def test_memory_is_in_the_timings_each_process_once(tmp_path):
    """Here server and clients are one process, whose peak only grows."""
    first, second, third = (row["peak_memory_mb"] for row in rows(finish(config(), tmp_path), "timings"))
    assert 50 < first <= second <= third <= measure_own_peak().megabytes


def test_a_run_goes_on_on_another_machine(tmp_path, bucket, machine):
    """Two rounds here, the third there, by a URI alone: what is kept is what a plain folder would have."""
    run, here, there = config(), machine("here"), machine("there")
    opened = session()
    assert opened.open(run, here) == 0
    for _ in range(2):
        opened.next_round()
    opened = session()
    assert opened.open(run, there) == 2
    opened.next_round()
    kept = read_numbers(build_folder_path(bucket, run))
    assert (
        kept
        == read_numbers(build_folder_path(there.root, run))
        == read_numbers(finish(run, tmp_path / "plain"))
    )
    log = (build_folder_path(bucket, run) / "log.txt").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in log] == ["starts", "continues after round 2", "finished"]
    here.pull_marks()
    assert RunFolder(here, run).is_done
    assert session().open(run, here) == 3


def test_a_push_cut_short_costs_one_round(tmp_path, monkeypatch, bucket, machine):
    """Killed while round 3 was sent: its records are there, its state is cut, the manifest is round 2's."""
    run, storage = config(), machine("here")
    there = build_folder_path(bucket, run)

    def send_half(remote, path, name, plain=Remote.send):
        if name.endswith("state-000003.safetensors"):
            (bucket / name).write_bytes(path.read_bytes()[:100])
            raise KeyboardInterrupt
        plain(remote, path, name)

    opened = session()
    opened.open(run, storage)
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "send", send_half)
        for _ in range(2):
            opened.next_round()
        with pytest.raises(KeyboardInterrupt):
            opened.next_round()
    assert read_manifest(there).rounds_done == 2
    opened = session()
    assert opened.open(run, storage) == 2
    opened.next_round()
    assert read_numbers(there) == read_numbers(finish(run, tmp_path / "whole"))


def test_until_an_algorithm_acts_its_rounds_are_those_of_plain_averaging(tmp_path):
    """Common random numbers: the first temperature is never a rise, so OCFL only averages in round 1."""
    plain, clustered = (finish(config(algorithm=name), tmp_path) for name in ("fedavg", "ocfl-kmeans"))
    first = [[row for row in rows(folder, "clients") if row["round"] == 1] for folder in (plain, clustered)]
    assert repr(first[0]) == repr(first[1]), "as text, in which NaN equals NaN"


def test_a_run_killed_between_its_last_round_and_its_end_is_finished(tmp_path):
    folder = finish(config(), tmp_path)
    before = read_numbers(folder)
    list_files(folder, is_finished=False)
    assert session().open(config(), Storage.from_text(tmp_path)) == ROUNDS
    assert read_numbers(folder) == before
    assert read_manifest(folder).is_finished
