"""Measure the memory of a run after 20 rounds and after 200: it must not grow with the rounds.

python -m benchmarks.memory
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine import start_run
from benchmarks.options import build_parser
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import default_data_dir

EARLY_ROUND, LATE_ROUND = 20, 200


def read_status(pid: int) -> dict[str, str]:
    """Read the fields of /proc/<pid>/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def read_private_mb(pid: int) -> float:
    """Read the private memory of a process in MB, without Ray's shared object store."""
    return int(read_status(pid)["RssAnon"].split()[0]) / 1024


def read_private_memory() -> dict[str, float]:
    """Read the private memory, in MB, of the client actors and of this process, which has the server."""
    parents = {
        int(path.name): int(read_status(int(path.name))["PPid"]) for path in Path("/proc").glob("[0-9]*")
    }
    ours = [pid for pid, parent in parents.items() if parents.get(parent) == os.getpid()]
    # Ray names an actor's process after its class: other children are its raylet and idle workers.
    titles = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in ours}
    clients = {f"Client {pid}": pid for pid, title in titles.items() if title.startswith("ray::Client")}
    return {name: read_private_mb(pid) for name, pid in {"Server": os.getpid(), **clients}.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run rounds of digits and print the memory of each process after the first ones and after all."""
    parser = build_parser(__doc__, "after two rounds and after four")
    first, last = (2, 4) if parser.parse_args(arguments).quick else (EARLY_ROUND, LATE_ROUND)
    run = complete_config({"algorithm": "ocfl-kmeans", "training": {"rounds": last}}, default_data_dir())
    data_dir = default_data_dir()
    with tempfile.TemporaryDirectory() as storage, start_run(run, Path(storage), data_dir) as next_round:
        memory: dict[str, list[float]] = {}
        for number in range(1, last + 1):
            next_round()
            if number in (first, last):
                for name, megabytes in read_private_memory().items():
                    memory.setdefault(name, []).append(megabytes)
        for name, (early, late) in memory.items():
            print(f"{name}: {early:.0f} MB after {first} rounds, {late:.0f} MB after {last}")
        early, late = (sum(values) for values in zip(*memory.values(), strict=True))
        print(f"together: ratio {late / early:.3f}")


if __name__ == "__main__":
    main()
