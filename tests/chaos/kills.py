"""Kill a grid at random moments, give the same command again, and compare with an undisturbed one.

python -m tests.chaos.kills --kills 20 --seed 0
python -m tests.chaos.kills --kills 100 --without-ray   # the driver only, which does the runs itself
python -m tests.chaos.kills --kills 40 --two   # two grids at once on one storage, half of the kills each

Killed are the driver, a run's server, a client actor, the raylet and the whole process tree; the driver is
also interrupted, once and twice, and states are truncated while it is down. Moments and victims are drawn
with the seed. With `--two`, two drivers work side by side, and share rounds. At the end the records, states
and scores of all runs must be the same bytes as those of the undisturbed grid, and MLflow must have every
round of every metric once.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlflow.tracking import MlflowClient

from tests.helpers.manifests import list_finished
from tests.helpers.processes import TITLES, list_processes, select_kind
from tests.helpers.stored_runs import read_files

ROOT = Path(__file__).parents[2]
VICTIMS = ("driver", "server", "client", "raylet", "tree", "interrupt", "interrupt twice", "driver and state")
DEADLINE = 300
"""Seconds without a word from a driver, after which it hangs."""
ALGORITHMS = (
    "ocfl-kmeans, ocfl-affinity, ocfl-meanshift",
    "ocfl-hdbscan, fedavg, {name: briggs, round: 4}, "
    "{name: sattler, cooldown: 3, epsilon_1: 0.4, epsilon_2: 0.5}",
)
"""Of two grids of 24 and 32 runs, or of one of 56; all of them share rounds."""
GRID = """
split:
- {kind: nonoverlapping-balanced, draws: 40, server_images: 50}
- {kind: nonoverlapping-imbalanced, draws: 40, server_images: 50}
- {kind: overlapping-balanced, draws: 40, server_images: 50}
- {kind: overlapping-imbalanced, draws: 40, server_images: 50}
clients: [15, 30]
algorithm: [ALGORITHMS]
training: {rounds: 8, local_epochs: 1}
"""
"""On a part of digits."""
WITHOUT_RAY = "--in-process"
OF_THE_DRIVER = ("driver", "interrupt", "interrupt twice", "driver and state")
"""Victims where there are no other processes."""


@dataclass
class Seen:
    """What the drivers have said so far."""

    rounds: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(run id, round) -> how often it was said to be done."""
    failed: list[str] = field(default_factory=list)

    @property
    def repeated(self) -> int:
        """Rounds that were done again after they had been said to be done."""
        return sum(times - 1 for times in self.rounds.values())


def command(grid: Path, storage: Path, *options: str) -> list[str]:
    """Return the command that a user would give again and again."""
    entry = [sys.executable, "-c", "from fedgrid.grids.cli.main import main; main()"]
    return [*entry, "run", str(grid), "--storage", str(storage), "--json", "--retries", "3", *options]


def start(arguments: list[str], log: Path, folder: Path = ROOT) -> "subprocess.Popen[str]":
    """Start a driver in a folder, the leader of its own session, so that its tree can be found."""
    with log.open("a") as errors:
        return subprocess.Popen(
            arguments, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )


def follow(driver: "subprocess.Popen[str]", seen: Seen, rounds: int) -> bool:
    """Read a driver's events until `rounds` more rounds are done; return whether it still runs then."""
    assert driver.stdout is not None
    for line in driver.stdout:
        signal.alarm(DEADLINE)
        event = json.loads(line)
        if event["event"] == "result" and event["error"]:
            seen.failed.append(f"{event['run']}: {event['error']}")
        if event["event"] == "round":
            seen.rounds[event["run_id"], event["round"]] += 1
            rounds -= 1
            if rounds == 0:
                return True
    return False


def kill(victim: str, driver: "subprocess.Popen[str]", runs: Sequence[Path], rng: random.Random) -> None:
    """Kill, interrupt or damage one of `runs`; returns when the driver is gone, unless it is to survive."""
    if victim in TITLES:
        found = select_kind(victim, list_processes(driver.pid))
        if found:
            send(rng.choice(found), signal.SIGKILL)
        else:
            print(f"  there is no {victim} to be killed", flush=True)
    elif victim == "tree":
        for pid in [*list_processes(driver.pid), driver.pid]:
            send(pid, signal.SIGKILL)
    elif victim.startswith("interrupt"):
        driver.send_signal(signal.SIGINT)
        if victim == "interrupt twice":
            time.sleep(rng.uniform(0, 0.5))
            driver.send_signal(signal.SIGINT)
    else:
        driver.kill()
    if victim == "driver and state":
        driver.wait()
        truncate_a_state(runs, rng)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to one of our own processes, which may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def truncate_a_state(runs: Sequence[Path], rng: random.Random) -> None:
    """Cut the newest state of a run that is under way in half; its only one would have the run refused."""
    under_way = [run for run in runs if run.exists() and run not in list_finished(run.parent)]
    states = [sorted(run.glob("state-*.safetensors")) for run in under_way]
    newest = [of_run[-1] for of_run in states if len(of_run) > 1]
    if newest:
        victim = rng.choice(newest)
        with victim.open("r+b") as file:
            file.truncate(victim.stat().st_size // 2)


def undamaged(storage: Path) -> dict[str, bytes]:
    """Return file -> bytes of all runs, without what was set aside as damaged."""
    return {name: data for name, data in read_files(storage).items() if "/damaged-" not in name}


def mlflow_faults(storage: Path, grid: str, rounds: int) -> list[str]:
    """Return what MLflow has twice, has not, or has as unfinished."""
    client = MlflowClient(tracking_uri=f"sqlite:///{storage / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(grid)
    runs = client.search_runs([experiment.experiment_id])
    return list(_faults(client, [run for run in runs if "mlflow.parentRunId" in run.data.tags], rounds))


def _faults(client: MlflowClient, runs: list, rounds: int) -> Iterator[str]:
    names = [run.info.run_name for run in runs]
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{name}: {times} runs"
    for run in runs:
        if run.info.status != "FINISHED":
            yield f"{run.info.run_name}: {run.info.status}"
        steps = [metric.step for metric in client.get_metric_history(run.info.run_id, "clustering/ari")]
        if sorted(steps) != list(range(1, rounds + 1)):
            yield f"{run.info.run_name}: rounds {steps}"


def run_to_the_end(grid: Path, storage: Path, log: Path, *options: str) -> Seen:
    """Run an undisturbed grid."""
    seen = Seen()
    driver = start(command(grid, storage, *options), log)
    follow(driver, seen, rounds=-1)
    if driver.wait() != 0:
        raise SystemExit(f"the undisturbed grid ended with exit code {driver.returncode}: {log.read_text()}")
    return seen


def disturbed(
    grid: Path,
    storage: Path,
    runs: Sequence[str],
    log: Path,
    kills: int,
    span: int,
    rng: random.Random,
    *options: str,
) -> tuple[Seen, int]:
    """Run a grid that is killed `kills` times, on average every `span` rounds; return also the launches.

    `runs` are the folders of its runs, `options` further ones of `fedgrid run`.
    """
    seen, launches = Seen(), 0
    kinds = OF_THE_DRIVER if WITHOUT_RAY in options else VICTIMS
    victims = [kinds[index % len(kinds)] for index in range(kills)]
    rng.shuffle(victims)
    driver = None
    for victim in [*victims, None]:
        # At most `kills` times twice the span, which is less than there is.
        moment = rng.randint(1, 2 * span)
        while True:
            if driver is None or driver.poll() is not None:
                driver = start(command(grid, storage, *options), log)
                launches += 1
            rounds = moment if victim else -1
            if follow(driver, seen, rounds):
                break
            code = driver.wait()
            if victim is None and code == 0:
                return seen, launches
            print(f"  driver ended with {code}; the same command again", flush=True)
            if code == 0:
                raise SystemExit(f"the grid was finished before {victim} could be killed: use a larger grid")
        before = seen.repeated
        time.sleep(rng.uniform(0, 0.3))
        kill(victim, driver, [storage / run for run in runs], rng)
        print(f"after {moment} rounds: {victim} (rounds repeated so far: {before})", flush=True)
    raise AssertionError("the last launch returns")


def compare(grid: Path, folder: Path, given: argparse.Namespace) -> int:
    """Run a grid undisturbed and killed, the latter in `folder`/killed; return how much is wrong."""
    rng = random.Random(given.seed)
    began = time.monotonic()
    whole_in, log = folder / f"{grid.stem}-undisturbed", folder / f"{grid.stem}-errors.txt"
    killed = [WITHOUT_RAY] if given.without_ray else []
    where = [WITHOUT_RAY] if given.in_process or given.without_ray else []
    whole = run_to_the_end(grid, whole_in, log, *where)
    total = len(whole.rounds)
    rounds = max(number for _, number in whole.rounds)
    print(f"{grid.stem}, undisturbed: {total} rounds in {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    span = max(1, total // (2 * given.kills + 2))
    expected = undamaged(whole_in)
    runs = sorted({name.split("/")[0] for name in expected})
    seen, launches = disturbed(grid, folder / "killed", runs, log, given.kills, span, rng, *killed)
    print(f"{grid.stem}, disturbed: {launches} launches in {time.monotonic() - began:.0f} s", flush=True)
    found = {name: data for name, data in undamaged(folder / "killed").items() if name.split("/")[0] in runs}
    differences = [path for path in expected | found if expected.get(path) != found.get(path)]
    faults = mlflow_faults(folder / "killed", grid.stem, rounds)
    for line in [*differences, *faults, *seen.failed]:
        print(line)
    print(
        f"{grid.stem}: {given.kills} kills, {len(differences)} files differ of {len(expected)}, "
        f"{len(faults)} faults in MLflow, {len(seen.failed)} runs failed, {seen.repeated} rounds repeated"
    )
    wrong = len(differences) + len(faults) + len(seen.failed)
    if wrong:
        print(log.read_text())
    return wrong


def side_by_side(folder: Path, given: argparse.Namespace) -> int:
    """Do that with two grids at the same time, each in a process of its own; return how many went wrong."""
    both = []
    for number, algorithms in enumerate(ALGORITHMS):
        grid = folder / f"grid{number}.yaml"
        grid.write_text(GRID.replace("ALGORITHMS", algorithms))
        options = [
            "--kills",
            str(given.kills // 2),
            "--seed",
            str(given.seed + number),
            "--folder",
            str(folder),
        ]
        options += ["--without-ray"] * given.without_ray + ["--in-process"] * given.in_process
        script = [sys.executable, "-m", "tests.chaos.kills", "--grid", str(grid)]
        both.append(subprocess.Popen([*script, *options], cwd=ROOT))
    wrong = sum(each.wait() != 0 for each in both)
    left = list((folder / "killed" / "drivers").iterdir())
    print(f"{wrong} of 2 grids went wrong; files of drivers that are left: {len(left)}")
    return wrong + len(left)


def main() -> None:
    """Run both grids and say what differs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--grid", type=Path, help="a YAML file; 56 runs on digits if left out")
    options.add_argument("--in-process", action="store_true", help="run the undisturbed grid without Ray")
    options.add_argument("--without-ray", action="store_true", help="run both grids without Ray")
    options.add_argument("--two", action="store_true", help="two grids at the same time on one storage")
    options.add_argument("--folder", type=Path, help="where the storages are; a temporary one if left out")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedgrid-chaos-") as name:
        folder = given.folder or Path(name)
        grid = given.grid or folder / "chaos.yaml"
        if given.grid is None:
            grid.write_text(GRID.replace("ALGORITHMS", ", ".join(ALGORITHMS)))
        if side_by_side(folder, given) if given.two else compare(grid, folder, given):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
