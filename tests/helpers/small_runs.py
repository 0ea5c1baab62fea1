"""Whole small runs on scikit-learn's digits, with a round cache and without: six clients, three rounds."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.clients.messages import EvaluateReport, Reply, TrainReport
from fedgrid.engine.federation.clients.process import PeakMemory
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.clients.machine import describe_machine
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.round_cache.files import FOLDER, CacheOptions
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.stored_runs import CLOCKS

NOWHERE = Path("no-data-needed")
CLIENTS, ROUNDS = 6, 3
CACHE = CacheOptions()
EARLY: dict[str, Any] = {
    "sattler": {"cooldown": 1, "epsilon_1": 1.0, "epsilon_2": 0.0},
    "sattler-as-published": {"cooldown": 1, "epsilon_1": 1.0, "epsilon_2": 0.0},
    "briggs": {"round": 2},
    "briggs-as-published": {"round": 2},
    "fine-tuned": {"fine_tune": 2},
    "fedrep": {"together": True},  # Else two local epochs are needed.
    "embeddings": {"encoder": "pixels"},
    "embeddings-as-published": {"encoder": "pixels", "threshold": 10.0},
}
"""Settings with which an algorithm acts in round 2, as all of OCFL do by themselves, or cheaply before it."""


def config(algorithm: Any = "fedavg", clients: int = CLIENTS, **given: Any) -> RunConfig:
    """Build a run: forty draws a client, one local epoch, fifty images at the server.

    `split` may be a name.
    """
    split = given.pop("split", {})
    values = {
        "clients": clients,
        "algorithm": algorithm,
        "training": {"rounds": ROUNDS, "local_epochs": 1, **given.pop("training", {})},
        "split": {"draws": 40, "server_images": 50, **expand_split(split)},
        **given,
    }
    return complete_config(values, NOWHERE)


def expand_split(split: str | dict[str, Any]) -> dict[str, Any]:
    """Build the settings of a split that may be given by its name alone."""
    return {"kind": split} if isinstance(split, str) else split


def build_early_run(name: str, **given: Any) -> RunConfig:
    """Build the run of an algorithm that acts in round 2, if its settings allow that."""
    split = {**choose_references(name), **expand_split(given.pop("split", {}))}
    settings: dict[str, Any] = EARLY.get(name, {})
    return config({"name": name, **settings}, split=split, **given)


def choose_optimizer(name):
    """Choose the keys of `training` that an algorithm needs: FedNova counts steps of sgd."""
    return {"optimizer": "sgd"} if name == "fednova" else {}


def choose_references(name):
    """Choose keys of `split` without which an algorithm does not run."""
    return {"reference_images": 20} if name.startswith("flis") else {}


def build_all_runs(**given):
    """Build a run of each algorithm."""
    return [build_early_run(name, **given) for name in ALGORITHMS]


def play(run, root, pool=None, cache=CACHE, until=None):
    """Run to its end, or `until` a round, with a session of its own; find the run's folder.

    Args:
        run: what to run.
        root: its storage.
        pool: its clients; in this process by default.
        cache: options of the round cache; None for none.
        until: round after which it stops; its last one by default.
    """
    opened = Session(pool or InProcessPool(), NOWHERE, cache=cache)
    for _ in range(opened.open(run, Storage.from_text(root)), until or run.training.rounds):
        opened.next_round()
    return build_folder_path(Path(root), run)


def read_numbers(folder):
    """Read the bytes of all files but those with clock readings, and the lock."""
    paths = [path for path in sorted(folder.iterdir()) if path.name not in (*CLOCKS, "lock")]
    return {path.name: path.read_bytes() for path in paths}


def content(path):
    """Read what a table or the tensors of a state hold, to the bit, without the run that they name."""
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pylist())
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in load_file(path).items()}


def read_contents(folder):
    """Read the `content` of the records and states of a run, which has other bytes in another run."""
    names = [path for path in sorted(folder.iterdir()) if path.suffix in (".parquet", ".safetensors")]
    return {path.name: content(path) for path in names if not path.name.startswith("timings")}


_alone: dict[Any, dict[str, bytes]] = {}


def run_alone(run, pool=InProcessPool):
    """Run without a round cache, the clients in such a pool, and read the files; once a process."""
    if (run.run_id, pool) not in _alone:
        with TemporaryDirectory() as root:
            _alone[run.run_id, pool] = read_numbers(play(run, root, pool(), cache=None))
    return _alone[run.run_id, pool]


def find_differing(run, root, pool=InProcessPool):
    """Find the names of a run's files under `root` that differ from those without a round cache."""
    run_files, expected = read_numbers(build_folder_path(Path(root), run)), run_alone(run, pool)
    assert "rounds.parquet" in expected
    return sorted(name for name in run_files | expected if run_files.get(name) != expected.get(name))


def rows(run, root, name="timings"):
    """Read a run's records."""
    return pq.read_table(build_folder_path(Path(root), run) / f"{name}.parquet").to_pylist()


def count_trained(run, root):
    """Count how many clients the run has trained itself, a number a round."""
    return [row["trained_clients"] for row in rows(run, root)]


def log(run, root):
    """Read the lines of a run's log without their times."""
    lines = (build_folder_path(Path(root), run) / "log.txt").read_text().splitlines()
    return [line.split(" ", 2)[2] for line in lines]


def warnings(run, root):
    """Read the warnings in a run's log."""
    return [line for line in log(run, root) if line.startswith("warning: ")]


def files(root, pattern="*"):
    """List the entries of the round cache whose names match."""
    return sorted(Path(root, FOLDER).glob(f"*/{pattern}.safetensors"))


def locks(root):
    """List the lock files of rounds, held or left behind."""
    return sorted(Path(root, FOLDER).glob("*/*.lock"))


class UnusedPool:
    """A pool that fails when it is used."""

    machines = staticmethod(lambda: [describe_machine("cpu")])

    def prepare(self, setup):
        raise AssertionError("prepared")

    def describe(self, clients, message):
        raise AssertionError("described")

    def train(self, tasks, models, memories):
        raise AssertionError("trained")

    def evaluate(self, tasks, models, memories):
        raise AssertionError("tested")


class CountingPool(InProcessPool):
    """A pool that records which clients it trains, by round, and how often it tests."""

    def __init__(self):
        super().__init__()
        self.trained, self.tests = [], 0

    def train(self, tasks, models, memories):
        self.trained += [(task.round_index + 1, task.client) for task in tasks]
        return super().train(tasks, models, memories)

    def evaluate(self, tasks, models, memories):
        self.tests += 1
        return super().evaluate(tasks, models, memories)


class ArithmeticPool:
    """Clients that train and test in no time; clients 2 k and 2 k + 1 have the same target.

    The memory is the last update, a tenth of which is added to the next one.
    """

    machines = staticmethod(lambda: [describe_machine("cpu")])
    drift = 0.0
    """Added to every update: with another one, a client that trains again gets other bits."""

    def prepare(self, setup):
        self._setup = setup

    def train(self, tasks, models, memories):
        return [self._train(task, models, memories.get(task.client)) for task in tasks]

    def _train(self, task, models, memory):
        (chosen,) = task.order.candidates
        model = models[chosen]
        rng = np.random.default_rng([self._setup.seed, task.client, task.round_index])
        wish = np.random.default_rng([self._setup.seed, task.client // 2]).normal(size=model.size)
        update = (0.3 * (wish - model) + 0.01 * rng.normal(size=model.size)).astype(np.float32)
        if memory is not None:
            update += np.float32(0.1) * memory["optimizer"]
        update += np.float32(self.drift)
        norm = float(np.linalg.norm(update))
        counts = self._counts(model + update) if task.evaluate else None
        report = TrainReport(
            task.client,
            chosen,
            norm / 100,
            0.5,
            norm,
            True,
            counts,
            counts if task.local_server else None,
            1.0,
            PeakMemory("process", 1e6),
            checksum=crc32(update.data),
        )
        memory = {"optimizer": update} if self._setup.training.keep_optimizer_state else {}
        return Reply(report, update, {}, memory)

    def evaluate(self, tasks, models, memories):
        counts = [self._counts(model) for model in models]
        return [EvaluateReport(task.client, counts[task.own], tuple(counts)) for task in tasks]

    def _counts(self, model):
        confusion = np.abs(model[:100].reshape(10, 10) * 10).astype(np.int64) + np.eye(10, dtype=np.int64)
        return Counts(confusion, float(np.abs(model).sum()))


def digits_of_two_writers(folder: Path) -> str:
    """Write a data set of digits, the darker half by ada and the brighter half by bright; name it."""
    arrays: dict[str, Any] = {}
    for part, held in zip(("train", "test"), load_dataset("digits", NOWHERE), strict=True):
        brightness = held.images.mean(axis=(1, 2, 3))
        arrays[f"{part}_images"] = held.images[:, 0]
        arrays[f"{part}_labels"] = held.labels
        arrays[f"{part}_group"] = np.where(brightness > np.median(brightness), "bright", "ada")
    np.savez(folder / "digits.npz", **arrays)
    return f"npz:{folder / 'digits.npz'}"
