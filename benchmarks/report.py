"""Time `fedgrid report` for 280 runs of 50 rounds, and check that a second report has the same bytes.

python -m benchmarks.report
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.many_runs import measure_command
from benchmarks.options import build_parser
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.partition.scenarios import Scenario, find_cluster_sizes
from fedgrid.engine.federation.record_names import SCORES, TESTS
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import write_scores
from fedgrid.record_columns import build_schemas
from fedgrid.tracking.arrays import Array

NUM_ROUNDS, NUM_GROUPS, NUM_CLASSES = 50, 3, 10
QUICK_SCENARIO = ("dataset=mnist", "split=overlapping-balanced", "clients=15", "seed=0")
MAX_NAMES = 5
RIGHT_SHARES = {"fedavg": 0.0, "sattler": 0.4, "briggs": 0.2, "ocfl-affinity": 0.3, "ocfl-meanshift": 0.7}
"""Share of runs that find the hidden groups; 0.9 for the others."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the grid, write its report twice, and print seconds and memory of both."""
    parser = build_parser(__doc__, "one scenario's seven runs, of five rounds")
    quick: bool = parser.parse_args(arguments).quick
    num_rounds, scenario = (5, QUICK_SCENARIO) if quick else (NUM_ROUNDS, ())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        storage = Storage.from_text(folder / "runs")
        started = time.perf_counter()
        runs = make_grid(storage, num_rounds, scenario)
        print(f"{len(runs)} runs of {num_rounds} rounds made in {time.perf_counter() - started:.1f} s")
        report = GridFolder(storage, "paper").path / "report"
        print(f"{'':24}{'seconds':>9}{'peak MB':>9}{'files':>7}{'MB':>7}")
        digests: list[dict[str, str]] = []
        for title in ("report", "the same report again"):
            seconds, _, megabytes = measure_command(folder, "report", "paper")
            digests.append(dict(hash_files(report)))
            size = sum(path.stat().st_size for path in report.rglob("*")) / 1e6
            print(f"{title:24}{seconds:9.1f}{megabytes:9.0f}{len(digests[-1]):7}{size:7.1f}")
        first, second = digests
        differing = sorted(name for name in first | second if first.get(name) != second.get(name))
        shown = ", ".join(differing[:MAX_NAMES]) or "the same bytes"
        print(f"{len(differing)} of {len(first)} files differ: {shown}")


def make_grid(storage: Storage, num_rounds: int, scenario: Sequence[str]) -> tuple[RunConfig, ...]:
    """Write the paper's runs as if they had been run, with as many rounds whatever the data set."""
    overrides = [f"training.rounds={num_rounds}"]
    grid = load_grid("paper", {}, overrides, default_data_dir(), filters=list(scenario))
    for index, run in enumerate(grid.runs):
        folder = RunFolder(storage, run)
        folder.open()
        rounds, clients = make_records(run, np.random.default_rng(index))
        folder.put_tables({"rounds": rounds, "clients": clients})
        write_scores(run, storage)
        folder.finish()
    GridFolder(storage, grid.name).keep(grid.runs, grid.text)
    return grid.runs


def make_records(run: RunConfig, random: np.random.Generator) -> tuple[pa.Table, pa.Table]:
    """Make up records with all columns: clustering helps on one's own test, harms on the server's."""
    scenario = Scenario(run.dataset, run.split.kind, run.clients)
    truth_K = np.repeat(np.arange(NUM_GROUPS), find_cluster_sizes(scenario, NUM_GROUPS))
    num_rounds = run.training.rounds
    round_R = np.arange(1, num_rounds + 1)
    algorithm = run.algorithm.name
    clustered_at = num_rounds + 1 if algorithm == "fedavg" else int(random.integers(3, 25))
    is_right = random.random() < RIGHT_SHARES.get(algorithm, 0.9)
    cluster_K = truth_K if is_right else random.integers(0, NUM_GROUPS, run.clients)
    is_clustered_R = round_R >= clustered_at
    labels_RK = np.where(is_clustered_R[:, None], cluster_K, 0)
    learnt_R = 1 - np.exp(-round_R / 12)
    shape = (num_rounds, run.clients)

    def make_column(level_R: Array) -> Array:
        return np.clip(level_R[:, None] + random.normal(0, 0.04, shape), 0, 1).ravel()

    columns: dict[str, object] = {
        "round": np.repeat(round_R, run.clients),
        "client": np.tile(np.arange(run.clients), num_rounds),
        "cluster": labels_RK.ravel(),
        "true_cluster": np.tile(truth_K, num_rounds),
        "part": np.full(labels_RK.size, "trained"),
        "placed": [None] * labels_RK.size,
        "excluded": np.zeros(labels_RK.size, bool),
        "train_images": np.full(labels_RK.size, 1400),
        "test_images": np.full(labels_RK.size, 600),
        "train_loss": make_column(1 - 0.8 * learnt_R),
        "train_accuracy": make_column(0.9 * learnt_R),
        "update_norm": make_column(0.5 - 0.3 * learnt_R),
    }
    gain_R = is_clustered_R * (0.25 if is_right else -0.1)
    for test in TESTS:
        level_R = learnt_R * 0.65 + (gain_R if test.endswith("own") else -gain_R / 2)
        columns |= {
            f"{test}_{score}": make_column(level_R) for score in SCORES if score not in ("loss", "recall")
        }
        columns[f"{test}_loss"] = 2 * make_column(1 - level_R)
        columns[f"{test}_recall"] = list(random.random((labels_RK.size, NUM_CLASSES)))
    temperature_R = 0.2 + 0.35 * np.exp(-round_R / 10) - 0.1 * is_clustered_R
    rounds = {
        "round": round_R,
        "temperature": temperature_R + random.normal(0, 0.01, num_rounds),
        "clusters": [len(set(labels_K)) for labels_K in labels_RK.tolist()],
        "clustered": round_R == clustered_at,
        "bytes_down": np.full(num_rounds, run.clients * 400_000),
        "bytes_up": np.full(num_rounds, run.clients * 400_000),
        "excluded": np.zeros(num_rounds, int),
        "warnings": np.zeros(num_rounds, int),
        "mean_norm": 0.3 - 0.2 * learnt_R,
        "max_norm": 0.5 - 0.2 * learnt_R,
        "silhouette": 0.4 * learnt_R,
    }
    return pa.table(rounds, schema=build_schemas()["rounds"]), pa.table(
        columns, schema=build_schemas()["clients"]
    )


def hash_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Compute name and digest of each file in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
