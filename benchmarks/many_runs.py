"""Time the commands that read a whole grid, on thousands of finished runs of one round.

python -m benchmarks.many_runs --runs 10000

A few runs are real; the others are copies of their files, with marks of their own. MLflow has only the real
ones, and the marks say that it has the others too.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile

import yaml
from rich.console import Console

from benchmarks.memory import read_status
from benchmarks.options import build_parser
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import SCORES
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MARK_FILE
from fedgrid.manifest import CLIENTS, CONFIG, MANIFEST, ROUNDS, TIMES, FileEntry, read_manifest
from fedgrid.sealed_json import seal_values, unseal_text

SAMPLE_SECONDS = 0.05
"""Seconds between two samples of the memory."""
REAL_RUNS = 3
COPIED_FILES = (ROUNDS, CLIENTS, TIMES)
GRID = {
    "clients": 3,
    "algorithm": "fedavg",
    "split": {"draws": 40, "server_images": 50},
    "training": {"rounds": 1, "local_epochs": 1},
}
COMMANDS = {
    "expansion (--dry-run)": ("run", "many.yaml", "--dry-run"),
    "status": ("status", "many"),
    "run, nothing to do": ("run", "many.yaml", "--in-process", "--accept-changes"),
    "run --json, nothing to do": ("run", "many.yaml", "--in-process", "--accept-changes", "--json"),
    "show": ("show", "many"),
    "report": ("report", "many"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the grid and time the commands."""
    parser = build_parser(__doc__, "six runs, and `status` alone")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="Keep the grid there, and use one that is there.")
    parser.add_argument("--only", help="Only the commands whose title starts so.")
    given = parser.parse_args(arguments)
    if given.quick:
        given.runs, given.only = 2 * REAL_RUNS, "status"
    with tempfile.TemporaryDirectory(prefix="fedgrid-many-") as name:
        folder = given.folder or Path(name)
        if not (folder / "many.yaml").exists():
            make_grid(folder, given.runs)
        print(f"{'':28}{'seconds':>9}{'of a core':>11}{'peak MB':>9}")
        for title, command in COMMANDS.items():
            if title.startswith(given.only or ""):
                seconds, cpu, megabytes = measure_command(folder, *command)
                print(f"{title:28}{seconds:9.1f}{cpu:11.1f}{megabytes:9.0f}", flush=True)


def make_grid(folder: Path, runs: int) -> None:
    """Run the first runs of a grid, and copy them for the others."""
    folder.mkdir(parents=True, exist_ok=True)
    storage = Storage.from_text(folder / "runs")
    grid = write_grid(folder, runs)
    real = grid.runs[:REAL_RUNS]
    options = LaunchOptions(default_data_dir(), in_process=True, cache=None)
    Launcher(storage, options, Console(quiet=True)).run_unfinished(grid, real)
    for index, run in enumerate(grid.runs[REAL_RUNS:]):
        copy_run(storage, real[index % REAL_RUNS], run)
    GridFolder(storage, grid.name).keep(grid.runs, grid.text, grid.source)


def write_grid(folder: Path, runs: int) -> Grid:
    """Write the preset of a grid with this many seeds, and load it."""
    path = folder / "many.yaml"
    path.write_text(yaml.safe_dump({**GRID, "seeds": f"0..{runs - 1}"}))
    return load_grid(str(path), {}, [], default_data_dir())


def copy_run(storage: Storage, source: RunConfig, run: RunConfig) -> None:
    """Make a run's folder with the records of another run."""
    before, folder = build_folder_path(storage.root, source), build_folder_path(storage.root, run)
    folder.mkdir()
    for name in COPIED_FILES:
        copyfile(before / name, folder / name)
    (folder / CONFIG).write_text(RunFolder(storage, run)._format_config())
    # The manifest has a digest of the configuration: another run's copy would be refused as damaged.
    config = FileEntry.from_bytes((folder / CONFIG).read_bytes())
    manifest = read_manifest(before).with_files({CONFIG: config}, run_id=run.run_id)
    (folder / MANIFEST).write_text(manifest.to_text())
    scores = {**unseal_text((before / SCORES).read_bytes()), "run_id": run.run_id}
    (folder / SCORES).write_text(seal_values(scores, indent=2))
    # Without the mark `run` would log each copy to MLflow first.
    uri = f"sqlite:///{storage.root / 'mlflow.db'}"
    (folder / MARK_FILE).write_text(seal_values({"uri": uri, "mlflow_run_id": "copied", "rounds": 1}))


def measure_command(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Run a command; return its wall-clock and processor seconds, and its peak of memory in MB.

    The peak is sampled: that of `wait4` counts the memory of this process, which has started the command.
    """
    command = [sys.executable, "-c", "from fedgrid.grids.cli.main import main; main()", *arguments]
    began, peak = time.perf_counter(), 0.0
    process = subprocess.Popen([*command, "--storage", "runs"], cwd=folder, stdout=subprocess.DEVNULL)
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        peak = max(peak, float(read_status(process.pid).get("VmHWM", "0 kB").split()[0]) / 1e3)
        time.sleep(SAMPLE_SECONDS)
    _, code, used = ended
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, peak


if __name__ == "__main__":
    main()
