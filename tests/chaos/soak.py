"""Run thousands of small runs while processes are killed; look for what grows or is left behind.

python -m tests.chaos.soak --runs 2000 --kills 50 --seed 0
python -m tests.chaos.soak --runs 2000 --kills 50 --without-ray   # the driver does the runs itself

The runs are one round of three clients, one run a seed. Victims and moments are drawn with the seed, as in
`kills.py`. Throughout, the memory and the open files of the driver, the temporary folder, the shared memory
and the number of processes are sampled. At the end each must be within its bound, every run must be finished
and undamaged, MLflow must have each once, and some runs are computed again and compared byte for byte.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mlflow.tracking import MlflowClient

from fedgrid.engine.runtime.leases.scratch import HOLDER
from fedgrid.engine.runtime.storage.atomic import ABANDONED_AFTER, PARTIAL
from tests.chaos.kills import WITHOUT_RAY, Seen, command, kill, start, undamaged
from tests.helpers.manifests import list_finished
from tests.helpers.processes import list_processes

ROOT = Path(__file__).parents[2]

GRID = """
clients: 3
algorithm: fedavg
seeds: 0..{last}
training: {{rounds: 1, local_epochs: 1}}
split: {{draws: 40, server_images: 50}}
"""
VICTIMS = ("driver", "server", "client", "raylet", "tree", "interrupt")
RUNS_A_SAMPLE = 10
BAD_INPUT = 2
"""Exit code of a command that is refused, as when the code has changed meanwhile."""
AGAIN = 5
"""Runs that are computed again at the end."""
SETTLE_SECONDS = 60
"""How long the processes of a killed driver may take to end."""

DRIVER_KB_A_RUN = 60
"""Growth of the driver's memory. Ray Tune keeps 5 KB of each trial, and its object references some more."""
OPEN_FILES = 300
PROCESSES = 60


@dataclass(frozen=True)
class Sample:
    """The state of a driver and of its machine, after this many runs of a launch."""

    launch: int
    runs: int
    driver_mb: float
    open_files: int
    processes: int
    temporary_mb: float
    shared_mb: float


@dataclass
class Soak:
    """A grid that is run, and killed, until it is finished."""

    folder: Path
    rng: random.Random
    options: tuple[str, ...] = ()
    """Of the command."""
    samples: list[Sample] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    launches: int = 0
    launched_at: float = 0.0
    """Unix time of the last launch."""
    killed: int = 0
    codes: Counter[int] = field(default_factory=Counter)

    @property
    def storage(self) -> Path:
        """Where the runs are."""
        return self.folder / "runs"

    @property
    def temporary(self) -> Path:
        """The temporary folder of all processes, Ray's sessions too."""
        return self.folder / "t"

    def run(self, grid: Path, runs: int, kills: int) -> None:
        """Launch the grid until it is finished; kill something after about every `runs / kills` runs."""
        kinds = ("driver", "interrupt") if WITHOUT_RAY in self.options else VICTIMS
        victims = [self.rng.choice(kinds) for _ in range(kills)]
        span = max(1, runs // (kills + 1))
        driver = self._launch(grid)
        while True:
            if not self._follow(driver, self.rng.randint(1, 2 * span - 1) if victims else None):
                victim = victims.pop()
                kill(victim, driver, [], self.rng)
                self.killed += 1
                print(f"launch {self.launches}: {victim}", flush=True)
                continue
            code = driver.wait()
            self.codes[code] += 1
            wait_until_gone(self.temporary)
            if code == 0:
                return
            if code == BAD_INPUT:
                raise SystemExit(f"refused: {(self.folder / 'errors.txt').read_text().splitlines()[-1]}")
            driver = self._launch(grid)

    def _launch(self, grid: Path) -> "subprocess.Popen[str]":
        self.launches += 1
        self.launched_at = time.time()
        return start(command(grid, self.storage, *self.options), self.folder / "errors.txt")

    def _follow(self, driver: "subprocess.Popen[str]", runs: int | None) -> bool:
        """Read events until this many runs are finished; return whether the driver ended before."""
        assert driver.stdout is not None
        finished = 0
        for line in driver.stdout:
            event = json.loads(line)
            if event["event"] == "round":
                self.seen.rounds[event["run_id"], event["round"]] += 1
            if event["event"] != "result":
                continue
            if event["error"]:
                self.seen.failed.append(f"{event['run']}: {event['error']}")
            finished += 1
            if finished % RUNS_A_SAMPLE == 0:
                with suppress(OSError, ValueError):  # The driver may just have died.
                    self.samples.append(sample(driver.pid, self.launches, finished, self.temporary))
            if finished == runs:
                return False
        return True


def sample(driver: int, launch: int, runs: int, temporary: Path) -> Sample:
    """Look at a driver and its machine."""
    status = Path(f"/proc/{driver}/status").read_text().split()
    kilobytes = int(status[status.index("VmRSS:") + 1])
    open_files = len(list(Path(f"/proc/{driver}/fd").iterdir()))
    return Sample(
        launch,
        runs,
        kilobytes / 1e3,
        open_files,
        len(list_processes(driver)),
        size_mb(temporary),
        shared_mb(),
    )


def size_mb(folder: Path) -> float:
    """Return the size of all files in a folder; files that go meanwhile do not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
    return total / 1e6


def shared_mb() -> float:
    """Return how much of the shared memory is in use, by all programs of the machine."""
    found = os.statvfs("/dev/shm")
    return (found.f_blocks - found.f_bfree) * found.f_frsize / 1e6


def ours(temporary: Path) -> list[int]:
    """Return the processes that have our temporary folder in their environment, except this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = (path / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if f"TMPDIR={temporary}".encode() in environment and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


def wait_until_gone(temporary: Path) -> None:
    """Wait for the processes of a launch to end, and end those that do not."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while ours(temporary) and time.monotonic() < deadline:
        time.sleep(0.5)
    for pid in ours(temporary):
        print(f"  process {pid} is left", flush=True)
        os.kill(pid, signal.SIGKILL)


def growth_kb(samples: list[Sample]) -> float:
    """Return by how many kilobytes a run makes the driver grow, in the longest launch."""
    longest = max(Counter(each.launch for each in samples).items(), key=lambda item: item[1])[0]
    found = [each for each in samples if each.launch == longest]
    first, last = found[len(found) // 4], found[-1]
    return (
        0.0
        if last.runs == first.runs
        else (last.driver_mb - first.driver_mb) * 1e3 / (last.runs - first.runs)
    )


def mlflow_faults(storage: Path, grid: str, runs: int) -> list[str]:
    """Return what MLflow has twice, has not, or has as unfinished."""
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(grid)
    found, token = [], None
    while token != "":
        page = client.search_runs([experiment.experiment_id], page_token=token)
        found += [run for run in page if "mlflow.parentRunId" in run.data.tags]
        token = page.token or ""
    names = Counter(run.info.run_name for run in found)
    faults = [f"{name}: {times} times in MLflow" for name, times in names.items() if times > 1]
    faults += [f"{run.info.run_name}: {run.info.status}" for run in found if run.info.status != "FINISHED"]
    return faults + ([f"MLflow has {len(names)} of {runs} runs"] if len(names) != runs else [])


def computed_again(soak: Soak, seeds: list[int]) -> list[str]:
    """Run some seeds again, in one process, and return the files that differ."""
    grid = soak.folder / "again.yaml"
    grid.write_text(GRID.format(last=0).replace("0..0", str(seeds)))
    storage = soak.folder / "again"
    subprocess.run(command(grid, storage, "--in-process"), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    expected, found = undamaged(storage), undamaged(soak.storage)
    return [path for path, data in expected.items() if found.get(path) != data]


def left_in_shared_memory(began: float) -> list[str]:
    """Return the files of the shared memory that are new since `began` and that no process has open."""
    used = set()
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            used.add(os.readlink(path))
    new = [path for path in Path("/dev/shm").iterdir() if path.is_file() and path.stat().st_ctime > began]
    return [f"{path} is left" for path in new if str(path) not in used]


def left_in_storage(soak: Soak) -> list[str]:
    """Find half-written files that the last launch should have deleted.

    Those of a driver that was killed less than a quarter of an hour before that launch stay: another driver
    might still be writing them. They are printed, and no fault.
    """
    left = []
    for path in soak.storage.rglob(f"*{PARTIAL}*"):
        if path.stat().st_mtime < soak.launched_at - ABANDONED_AFTER:
            left.append(f"{path} is left")
        else:
            print(f"{path.name} is left by a driver that was killed while writing it")
    return left


def left_in_temporary_folder(temporary: Path) -> list[str]:
    """Return our temporary files that are left.

    A driver that is killed in the milliseconds between making a folder and writing its name there leaves an
    empty folder, which a later launch deletes after a quarter of an hour (`leases.scratch`). It is printed,
    and no fault.
    """
    left = []
    for folder in temporary.glob("fedgrid-*"):
        names = [path.name for path in folder.iterdir() if not path.name.startswith(f"{HOLDER}{PARTIAL}")]
        if names:
            left.append(f"{folder.name} is left in the temporary folder with {names}")
        else:
            print(f"{folder.name} is left empty by a driver that was killed while making it")
    return left


def faults(soak: Soak, runs: int, began: float) -> list[str]:
    """Return what is wrong at the end."""
    samples = soak.samples
    measured: Mapping[str, tuple[float, float]] = {
        "KB a run, growth of the driver": (growth_kb(samples), DRIVER_KB_A_RUN),
        "open files of the driver": (max(each.open_files for each in samples), OPEN_FILES),
        "processes": (max(each.processes for each in samples), PROCESSES),
    }
    print(f"driver at most {max(each.driver_mb for each in samples):.0f} MB")
    print(f"shared memory at most {max(each.shared_mb for each in samples):.0f} MB")
    print(f"temporary folder at most {max(each.temporary_mb for each in samples):.0f} MB")
    for what, (value, bound) in measured.items():
        print(f"{value:.1f} {what}, bound {bound:g}")
    wrong = [f"{what}: {value:.1f}" for what, (value, bound) in measured.items() if value > bound]
    done = len(list_finished(soak.storage, "digits-*"))
    wrong += [f"{done} of {runs} runs are finished"] if done != runs else []
    wrong += left_in_temporary_folder(soak.temporary)
    wrong += left_in_storage(soak)
    wrong += left_in_shared_memory(began)
    wrong += mlflow_faults(soak.storage, "soak", runs)
    wrong += soak.seen.failed
    again = sorted(soak.rng.sample(range(runs), min(AGAIN, runs)))
    return wrong + [f"{path} differs" for path in computed_again(soak, again)]


def main() -> None:
    """Run all, and say what is wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=2000)
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--without-ray", action="store_true", help="the driver does the runs itself")
    given = options.parse_args()
    # Ray's sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="fs-", dir="/tmp"))
    soak = Soak(folder, random.Random(given.seed), (WITHOUT_RAY,) if given.without_ray else ())
    soak.temporary.mkdir()
    os.environ.update({"TMPDIR": str(soak.temporary), "RAY_TMPDIR": str(soak.temporary)})
    tempfile.tempdir = None
    grid = folder / "soak.yaml"
    grid.write_text(GRID.format(last=given.runs - 1))
    began, wall = time.monotonic(), time.time()
    try:
        soak.run(grid, given.runs, given.kills)
        wrong = faults(soak, given.runs, wall)
        for line in wrong:
            print(line)
        print(
            f"{given.runs} runs, {soak.killed} kills, {soak.launches} launches that ended with "
            f"{dict(soak.codes)}, {soak.seen.repeated} rounds repeated, {len(wrong)} faults; "
            f"{time.monotonic() - began:.0f} s"
        )
        raise SystemExit(len(wrong) > 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
