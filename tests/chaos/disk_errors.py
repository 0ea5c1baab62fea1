"""Fail every write of a grid, one after the other, and compare what the grid leaves with an undisturbed one.

python -m tests.chaos.disk_errors                    # every write, three errors, two ways
python -m tests.chaos.disk_errors --each-place       # the first and the last write of each place in the code
python -m tests.chaos.disk_errors --every 20 --errors ENOSPC --ways full
python -m tests.chaos.disk_errors --part run         # every write of one run and its round cache: minutes

A library that is preloaded (`failing_disk.c`; needs a C compiler) counts the calls that write below the
storage, whoever makes them: Python, Arrow or safetensors. For each number the grid is run in a process of its
own. Either that call alone fails ("once"), or that call and all after it, as on a full disk ("full"). The
command must finish, or end with the cause in its output and without a traceback; then the same command must
finish in another process, on a disk that works. In the end the runs must have the same bytes as undisturbed
ones. Pauses take no time; MLflow's database is elsewhere (FEDGRID_TRACK=none leaves it out). With
`--part run` there is neither a command line nor MLflow, so that a case takes a fraction of the time. With
`--each-place`, of all writes that the same lines of our code lead to by the same calls, only the first and
the last fail.
"""

import argparse
import ctypes
import errno
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from tests.helpers.stored_runs import read_files

Launch: TypeAlias = Callable[[Path, int, int, str], Any]
"""From a storage, the first write that fails, how many do and the error, to the command's result."""
ROOT = Path(__file__).parents[2]
LIBRARY = "failing_disk.so"
OURS = "/fedgrid/"
"""What is in the paths of our modules."""
FOREVER = 1 << 40
IMPORTED = (
    "torch",
    "fedgrid.grids.cli.main",
    "fedgrid.grids.execution.launch",
    "sklearn.cluster",
    "sklearn.metrics",
)
SMALL = ("training.rounds=2", "training.local_epochs=1", "split.draws=40")
GRID = ("--clients", "3", "--algorithm", "ocfl-kmeans", *SMALL)
"""Which rounds and clients matters little: each round writes the same files."""


def without_pauses() -> None:
    """Make pauses advance the clock instead of waiting; to be called before fedgrid is imported."""
    real, skipped = time.monotonic, [0.0]

    def pause(seconds: float) -> None:
        skipped[0] += seconds

    time.sleep, time.monotonic = pause, lambda: real() + skipped[0]


def child(storages: Path, launch: Launch, given: argparse.Namespace) -> int:
    """Run all cases, each in a fork, so that what they import is imported once; return how many are wrong."""
    without_pauses()
    sys.path.insert(0, str(ROOT))
    for module in IMPORTED:
        import_module(module)
    from tests.helpers.command_line import TEST_RUN_FOLDER

    # All cases copy one empty MLflow store: to make one takes longer than a case.
    shared = storages.with_name("shared")
    shared.mkdir()
    os.environ.setdefault(TEST_RUN_FOLDER, str(shared))
    places, expected = undisturbed(storages, launch)
    calls = len(places)
    print(f"undisturbed: {calls} writes in {len(set(places))} places, {len(expected)} files", flush=True)
    chosen = ends_of(places) if given.each_place else range(given.every, calls + 1, given.every)
    wrong = cases = 0
    for name in given.errors:
        for way in given.ways:
            for call in chosen:
                work = partial(case, storages, launch, call, name, way, expected)
                said = forked(work)
                cases += 1
                if said:
                    wrong += 1
                    print(f"{name} {way}, write {call}: {said}", flush=True)
        print(f"{name}: done", flush=True)
    print(f"{cases} cases of {calls} writes, {wrong} wrong")
    return wrong


def forked(work: Callable[[], str]) -> str:
    """Return the text that `work` returns in a fork of this process; why there is none, if that is killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        with os.fdopen(write, "w") as pipe:
            pipe.write(text)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    return f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def undisturbed(storages: Path, launch: Launch) -> tuple[list[str], dict[str, bytes]]:
    """Run the grid, and import what that imports; return the place of each of its writes, and its files."""
    before = set(sys.modules)

    def run() -> str:
        places: list[str] = []
        watcher = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(lambda name: places.append(place_of(name)))
        disk().failing_disk_watch(watcher)
        result = launch(storages / "undisturbed", 0, 0, "EIO")
        disk().failing_disk_watch(None)
        assert result.code == 0, result
        counted = places[-disk().failing_disk_calls() :]  # Before the launch, others were written.
        return json.dumps([counted, *(set(sys.modules) - before)])

    places, *modules = json.loads(forked(run))
    import_all(modules)
    return places, read_files(storages / "undisturbed")


def place_of(name: bytes) -> str:
    """Return the name of a call and where in our code it is made, with all that has called that."""
    frame, lines = sys._getframe(1), []
    while frame is not None:
        if OURS in frame.f_code.co_filename:
            lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return f"{name.decode()} {' '.join(lines)}"


def ends_of(places: Sequence[str]) -> list[int]:
    """Return the numbers, from 1, of the first and the last write of each place."""
    first = {place: number for number, place in reversed([*enumerate(places, 1)])}
    last = {place: number for number, place in enumerate(places, 1)}
    return sorted({*first.values(), *last.values()})


def import_all(modules: Sequence[str]) -> None:
    """Import what a fork has imported, so that later forks have it."""
    for module in sorted(modules):
        # Some are no modules of a file, and can only be made by what has imported them.
        with suppress(ImportError):
            import_module(module)


def case(storages: Path, launch: Launch, call: int, name: str, way: str, expected: dict[str, bytes]) -> str:
    """Run one case; return what is wrong with it, or nothing."""
    from fedgrid.engine.runtime.storage.atomic import PARTIAL
    from tests.helpers.command_line import Result

    storage, times = storages / f"{name}-{way}-{call}", 1 if way == "once" else FOREVER
    # A process of its own: what it held is free when it has ended.
    said = forked(lambda: json.dumps(astuple(launch(storage, call, times, name))))
    result = Result(*json.loads(said)) if said.startswith("[") else Result(-1, "", said)
    lines = result.err.splitlines()
    if "Traceback" in result.err + result.out:
        return f"traceback: {lines[-1]}"
    if result.code not in (0, 1, 2):
        return f"exit code {result.code}: {lines[-1:]}"
    if result.code:
        named = " ".join((result.err + result.out).replace("│", " ").split())
        if os.strerror(getattr(errno, name)) not in named and "is full" not in named:
            return f"the cause is not said: {named[-300:]}"
        result = launch(storage, 0, 0, name)
        if result.code:
            return f"it does not go on: {result.err[-300:]}"
    # Where even a deletion fails, half a file is left, which a launch deletes a quarter of an hour later.
    found = {path: data for path, data in read_files(storage).items() if PARTIAL not in path}
    differing = sorted(path for path in expected | found if expected.get(path) != found.get(path))
    return f"{len(differing)} files differ: {differing[:3]}" if differing else ""


def launch_grid(storage: Path, call: int, times: int, name: str) -> Any:
    """Run the command with a failing disk; return its result."""
    from tests.helpers.command_line import fedgrid, new_storage

    tracking = storage.with_name("mlflow") / storage.name
    new_storage(tracking)
    os.environ["FAILING_FOLDER"] = str(storage)
    disk().failing_disk(ctypes.c_long(call), ctypes.c_long(times), getattr(errno, name))
    options = ("--in-process", "--storage", storage, "--retries", "3")
    tracked = f"sqlite:///{tracking}/mlflow.db"
    return fedgrid("run", *GRID, *options, MLFLOW_TRACKING_URI=tracked, FAILING_FOLDER=str(storage))


def launch_run(storage: Path, call: int, times: int, name: str) -> Any:
    """Do one run with a failing disk, through the library; return how it ended, as a command's result."""
    from fedgrid.engine.federation.errors import FedgridError
    from fedgrid.engine.runtime.clients.local_pool import InProcessPool
    from fedgrid.engine.runtime.configuration.complete import complete_config
    from fedgrid.engine.runtime.round_cache.files import CacheOptions
    from fedgrid.engine.runtime.run.session import Session
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.execution import run_events
    from tests.helpers.command_line import Result

    given = {"clients": 3, "algorithm": "ocfl-kmeans", "split": {"draws": 40}}
    config = complete_config({**given, "training": {"rounds": 2, "local_epochs": 1}}, storage)
    os.environ["FAILING_FOLDER"] = str(storage)
    disk().failing_disk(ctypes.c_long(call), ctypes.c_long(times), getattr(errno, name))
    session = Session(InProcessPool(), storage, cache=CacheOptions())
    try:
        for _ in run_events.run_to_end(session, config, Storage(storage), lambda: False):
            pass
    except FedgridError as error:
        return Result(1, "", str(error))
    return Result(0, "", "")


def disk() -> ctypes.CDLL:
    """Return the preloaded library."""
    found = ctypes.CDLL(None)
    found.failing_disk_calls.restype = ctypes.c_long
    return found


PARTS: Mapping[str, Launch] = {"grid": launch_grid, "run": launch_run}


def main() -> None:
    """Compile the library, and run all cases with it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--every", type=int, default=1, help="only every this many writes")
    options.add_argument("--each-place", action="store_true", help="the first and last write of each place")
    options.add_argument("--errors", nargs="+", default=["ENOSPC", "EIO", "EDQUOT"])
    options.add_argument("--ways", nargs="+", default=["once", "full"])
    options.add_argument("--part", choices=PARTS, default="grid")
    given = options.parse_args()
    if "FAILING_FOLDER" in os.environ:
        storages = Path(os.environ["FAILING_FOLDER"])
        raise SystemExit(min(1, child(storages, PARTS[given.part], given)))
    with tempfile.TemporaryDirectory(prefix="fedgrid-disk-") as name:
        library = Path(name) / LIBRARY
        source = Path(__file__).with_name("failing_disk.c")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True
        )
        environment = os.environ | {"LD_PRELOAD": str(library), "FAILING_FOLDER": f"{name}/storages"}
        again = [sys.executable, "-m", "tests.chaos.disk_errors", *sys.argv[1:]]
        done = subprocess.run(again, env=environment, cwd=ROOT)
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
