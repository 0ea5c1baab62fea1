"""Play small runs that share rounds, for `nfs_kernel.sh`: in a plain folder, or on mounts of one export.

python -m tests.chaos.nfs_runs FOLDER ALGORITHM [ALGORITHM ...]

It begins when its standard input ends, so that two processes can begin at once. Each wants the storage's
lease, and says if another one has it; it plays the runs in any case, as the servers of one driver do on
several machines. It prints how many clients it has trained in each round, and a digest of each run's files,
without those that hold times. Few modules are imported: in a user-mode Linux, pages are short.
"""

import sys
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.stored_runs import CLOCKS

ROUNDS = 4
SIZE = {"clients": 3, "training": {"rounds": ROUNDS, "local_epochs": 1}, "split": {"draws": 40}}


def play(algorithm: str, folder: Path) -> None:
    """Play a run, or the rest of it, and print what it has come to."""
    storage = Storage.from_text(folder)
    run = complete_config({**SIZE, "algorithm": algorithm}, folder)
    session = Session(InProcessPool(), folder, cache=CacheOptions())
    for _ in range(session.open(run, storage), ROUNDS):
        session.next_round()
    session.wait_for_writes()
    files = sorted(path for path in build_folder_path(folder, run).iterdir() if path.name not in CLOCKS)
    digest = sha256(b"".join(path.name.encode() + path.read_bytes() for path in files))
    trained = pq.read_table(build_folder_path(folder, run) / "timings.parquet")["trained_clients"].to_pylist()
    print(
        f"{algorithm}: {len(files)} files, {digest.hexdigest()[:16]}; clients trained: {trained}", flush=True
    )


def main() -> None:
    """Play the runs that the command names."""
    _, folder, *algorithms = sys.argv
    print("waits", flush=True)
    sys.stdin.read()
    with ExitStack() as stack:
        try:
            stack.enter_context(Lease(Storage.from_text(folder), "nfs", notify=print))
            print("holds the lease", flush=True)
        except ConfigError as error:
            print(f"refused: {error}", flush=True)
        for algorithm in algorithms:
            play(algorithm, Path(folder))


if __name__ == "__main__":
    main()
