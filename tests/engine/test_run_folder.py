"""A run's folder: the same bytes with and without interruptions, and one process at a time."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from algorithms.base import Diagnostics, State
from engine import checkpoint
from engine.errors import ConfigError, RunError
from engine.federation import Progress
from engine.messages import Counts, TrainReport
from engine.records import TESTS, RoundRecord, client_row, round_row
from engine.run_config import complete
from engine.run_folder import RunFolder, folder_of

NUM_CLIENTS, ROUNDS = 3, 4
TABLES = ("rounds.parquet", "clients.parquet", "timings.parquet")


def config(**given):
    return complete({"clients": NUM_CLIENTS, "training": {"rounds": ROUNDS}, **given}, Path("no-data-needed"))


def open_folder(path):
    folder = RunFolder(path, config())
    return folder, folder.open()


def progress(number):
    labels_K = np.arange(NUM_CLIENTS) % 2
    return Progress(number, State((np.full(4, number, np.float32),) * 2, labels_K), {})


def record(number):
    """Odd rounds have no tests and no norms; client 2's update is broken."""
    tested = number % 2 == 0
    counts = Counts(np.array([[number, 1], [0, 0]]), 1 / 3)
    labels_K = progress(number).state.labels_K
    return RoundRecord(
        round=round_row(
            number=number,
            temperature=1 / (number + 1),
            clusters=2,
            diagnostics=Diagnostics(clustered=tested, mean_norm=0.1 if tested else None),
            bytes_down=100,
            bytes_up=10,
            excluded=1,
        ),
        clients=[
            client_row(
                number=number,
                report=report(client, number),
                labels_K=labels_K,
                truth_K=labels_K,
                train_images=7,
                test_images=3,
                tests=dict.fromkeys(TESTS, counts if tested else None),
            )
            for client in range(NUM_CLIENTS)
        ],
        timing={
            "round": number,
            "seconds": 1.5,
            "train_seconds": 1.0,
            "cluster_seconds": 0.0,
            "evaluate_seconds": 0.5,
            "slowest_client": 1,
            "slowest_client_seconds": 0.75,
        },
        warnings=(f"round {number}: client 2 left out, its update is NaN or infinite",),
    )


def report(client, number):
    usable = client != 2
    return TrainReport(
        client=client,
        chosen=0,
        train_loss=1 / number if usable else np.nan,
        train_accuracy=0.5,
        update_norm=0.1 if usable else np.inf,
        usable=usable,
        local=None,
        local_server=None,
        seconds=0.5,
    )


def save(folder, *numbers):
    for number in numbers:
        folder.save(record(number), progress(number))


def content(path):
    """Return the bytes of everything but the log."""
    return {kept.name: kept.read_bytes() for kept in path.iterdir() if kept.name != "log.txt"}


@pytest.fixture
def uninterrupted(tmp_path):
    folder, kept = open_folder(tmp_path / "uninterrupted")
    assert kept is None
    save(folder, *range(1, ROUNDS + 1))
    return content(folder.path)


def test_a_folder_is_named_after_its_run():
    run = config(seed=3)
    assert folder_of(Path("runs"), run) == Path("runs") / f"{run.name}-{run.run_id}"


def test_what_a_folder_holds(uninterrupted):
    assert sorted(uninterrupted) == [
        "clients.parquet",
        "config.json",
        "rounds.parquet",
        "state-000003.safetensors",
        "state-000003.sha256",
        "state-000004.safetensors",
        "state-000004.sha256",
        "timings.parquet",
    ]
    assert json.loads(uninterrupted["config.json"]) == config().model_dump(mode="json")


def test_the_records_are_one_row_a_round_and_one_a_round_and_client(tmp_path):
    folder, _ = open_folder(tmp_path)
    save(folder, 1, 2)
    rounds, clients, timings = (pq.read_table(tmp_path / name).to_pylist() for name in TABLES)
    assert [row["round"] for row in rounds] == [row["round"] for row in timings] == [1, 2]
    assert [(row["round"], row["client"]) for row in clients] == [(n, c) for n in (1, 2) for c in range(3)]
    assert (rounds[0]["mean_norm"], rounds[1]["mean_norm"]) == (None, 0.1)
    assert clients[0]["local_own_recall"] is None
    assert clients[3]["local_own_recall"] == pytest.approx([2 / 3, np.nan], nan_ok=True)
    assert clients[2]["update_norm"] == np.inf


@pytest.mark.parametrize("stops", [(1,), (2,), (3,), (1, 2, 3)])
def test_a_resumed_run_leaves_the_same_bytes(tmp_path, uninterrupted, stops):
    folder, _ = open_folder(tmp_path / "resumed")
    for number in range(1, ROUNDS + 1):
        save(folder, number)
        if number in stops:
            folder, kept = open_folder(folder.path)
            assert kept.rounds_done == number
    assert content(folder.path) == uninterrupted


class Killed(BaseException):
    """Stands for `kill -9`."""


@pytest.mark.parametrize("last", TABLES)
def test_records_of_a_round_without_a_state_are_cut(tmp_path, monkeypatch, uninterrupted, last):
    """Killed after writing this table of round 3: the round never happened, and is done again."""
    folder, _ = open_folder(tmp_path / "killed")
    save(folder, 1, 2)
    write = RunFolder._write

    def write_and_die(self, name):
        write(self, name)
        if last.startswith(name):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "_write", write_and_die)
        with pytest.raises(Killed):
            save(folder, 3)
    assert pq.read_table(folder.path / last)["round"].to_pylist()[-1] == 3
    folder, kept = open_folder(folder.path)
    assert kept.rounds_done == 2
    save(folder, 3, 4)
    assert content(folder.path) == uninterrupted


def test_with_the_newest_state_damaged_its_round_is_done_again(tmp_path, uninterrupted):
    folder, _ = open_folder(tmp_path / "damaged")
    save(folder, 1, 2, 3)
    (folder.path / "state-000003.safetensors").write_bytes(b"")
    folder, kept = open_folder(folder.path)
    assert kept.rounds_done == 2
    save(folder, 3, 4)
    assert content(folder.path) == uninterrupted


def remove(path):
    path.unlink()


def truncate(path):
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("damage", [remove, truncate])
@pytest.mark.parametrize("name", TABLES)
def test_damaged_records_are_named(tmp_path, name, damage):
    folder, _ = open_folder(tmp_path)
    save(folder, 1, 2)
    damage(tmp_path / name)
    message = f"{tmp_path / name} is missing or damaged; delete its folder to start this run again"
    with pytest.raises(RunError, match=re.escape(message)):
        open_folder(tmp_path)


def test_records_that_end_before_the_state_are_named(tmp_path):
    folder, _ = open_folder(tmp_path)
    save(folder, 1)
    before = (tmp_path / "clients.parquet").read_bytes()
    save(folder, 2)
    (tmp_path / "clients.parquet").write_bytes(before)
    with pytest.raises(RunError, match=r"clients.parquet lacks round 2; delete its folder"):
        open_folder(tmp_path)


def test_the_folder_of_another_run_is_refused_and_left_alone(tmp_path):
    folder, _ = open_folder(tmp_path)
    save(folder, 1)
    before = content(tmp_path)
    with pytest.raises(ConfigError, match=r"config.json is of another version of this run; move .* away"):
        RunFolder(tmp_path, config(seed=1)).open()
    assert content(tmp_path) == before


def test_a_run_is_done_once_it_is_marked(tmp_path):
    folder, _ = open_folder(tmp_path)
    save(folder, 1, 2, 3, 4)
    assert not folder.is_done
    folder.finish()
    assert folder.is_done
    assert json.loads((tmp_path / "done.json").read_text()) == {"run_id": config().run_id, "rounds": ROUNDS}


def test_warnings_are_in_the_log(tmp_path):
    folder, _ = open_folder(tmp_path)
    save(folder, 1)
    assert (
        (tmp_path / "log.txt")
        .read_text()
        .endswith("warning: round 1: client 2 left out, its update is NaN or infinite\n")
    )


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_held_by_another_process_is_refused_until_that_is_gone(tmp_path):
    folder = RunFolder(tmp_path, config())
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        message = f"{tmp_path} is in use by another process; wait for it or stop it"
        with pytest.raises(RunError, match=re.escape(message)), folder.locked():
            pass
        holder.kill()
        holder.wait()
        with folder.locked():
            pass


def test_a_folder_can_be_held_again_after_a_failure(tmp_path):
    folder = RunFolder(tmp_path, config())
    with pytest.raises(ZeroDivisionError), folder.locked():
        _ = 1 / 0
    with folder.locked(), pytest.raises(RunError), RunFolder(tmp_path, config()).locked():
        pass


def test_leftovers_of_a_kill_are_no_state(tmp_path):
    (tmp_path / "state-000009.writing").write_bytes(b"half")
    (tmp_path / "rounds.writing").write_bytes(b"half")
    folder, kept = open_folder(tmp_path)
    assert kept is None
    save(folder, 1)
    assert checkpoint.load(tmp_path).rounds_done == 1
