"""Folders of runs of three clients whose rounds are made up, as a federation would have them saved."""

import re
from pathlib import Path

import numpy as np

from fedgrid.algorithms.contract.base import State
from fedgrid.engine.federation.record_names import SCORES, TESTS
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.federation.training.confusion import Counts, compute_scores
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import read_manifest
from fedgrid.record_columns import build_schemas

NUM_CLIENTS, ROUNDS = 3, 4
TABLES = ("rounds.parquet", "clients.parquet", "timings.parquet")


def config(**given):
    return complete_config(
        {"clients": NUM_CLIENTS, "training": {"rounds": ROUNDS}, **given}, Path("no-data-needed")
    )


def run_folder(root, **given):
    return RunFolder(Storage.from_text(root), config(**given))


def open_folder(root, rounds=ROUNDS):
    folder = run_folder(root, training={"rounds": rounds})
    return folder, folder.open()


def make_progress(number):
    labels_K = np.arange(NUM_CLIENTS) % 2
    return RunState(number, State((np.full(4, number, np.float32),) * 2, labels_K), {})


def record(number):
    """Make the record of a round.

    Odd rounds have no evaluation and no norms; client 2's update is not finite.
    """
    tested = number % 2 == 0
    [result] = compute_scores([Counts(np.array([[number, 1], [0, 0]]), 1 / 3)])
    return RoundRecord(
        round={
            **dict.fromkeys(build_schemas()["rounds"].names),
            "round": number,
            "temperature": 1 / (number + 1),
            "clusters": 2,
            "clustered": tested,
            "mean_norm": 0.1 if tested else None,
            "bytes_down": 100,
            "bytes_up": 10,
            "excluded": 1,
            "warnings": 1,
        },
        clients=[
            {
                **dict.fromkeys(build_schemas()["clients"].names),
                "round": number,
                "client": client,
                "cluster": client % 2,
                "true_cluster": client % 2,
                "part": "trained" if client != 2 else "excluded",
                "excluded": client == 2,
                "train_images": 7,
                "test_images": 3,
                **make_training_numbers(client, number),
                **{f"{test}_{name}": result[name] if tested else None for test in TESTS for name in SCORES},
            }
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
            "peak_memory_mb": 300.0,
        },
        warnings=(f"round {number}: client 2 left out, its update is NaN or infinite",),
    )


def make_training_numbers(client, number):
    usable = client != 2
    return {
        "train_loss": 1 / number if usable else np.nan,
        "train_accuracy": 0.5,
        "update_norm": 0.1 if usable else np.inf,
    }


def save_rounds(folder, *numbers):
    for number in numbers:
        folder.save_rounds([(record(number), make_progress(number))])


def read_content(path):
    """Read the bytes of every file that the manifest of a run lists, and what else the manifest says.

    Files of a run that is not finished are there by the table and their last round.
    """
    manifest = read_manifest(path)
    files = {strip_checksum(name): (path / name).read_bytes() for name in manifest.files}
    return files | {
        "manifest": (manifest.rounds_done, manifest.is_finished, sorted(manifest.states), manifest.made_with)
    }


def strip_checksum(name):
    """Strip the checksum from the name of a file of records."""
    return re.sub(r"-[0-9a-f]{8}\.parquet", ".parquet", name)


def find_records(path):
    """Find the newest file of each table."""
    return {table: path / read_manifest(path).list_segments(table)[-1] for table in build_schemas()}


def list_damaged(path):
    """List the names of the damaged files that were set aside."""
    return sorted(damaged.name for damaged in path.glob("damaged-*/*"))
