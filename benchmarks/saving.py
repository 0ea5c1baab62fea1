"""Measure what saving the records of a round costs late in a long run.

python -m benchmarks.saving --rounds 1000 --clients 30

The rounds are made up, and only the last ones are written, without the flush, which takes as long as the disk
wants. Milliseconds are those of the processor.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.options import build_parser
from fedgrid.engine.federation.record_names import SCORES, TESTS
from fedgrid.engine.runtime.run.records import Records, Rows
from fedgrid.record_columns import build_schemas

MEASURED, CLASSES = 20, 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Print milliseconds and bytes of a save."""
    parser = build_parser(__doc__, "twenty rounds of two clients")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=30)
    given = parser.parse_args(arguments)
    if given.quick:
        given.rounds, given.clients = MEASURED, 2
    milliseconds, size = 0.0, 0
    with tempfile.TemporaryDirectory(prefix="fedgrid-saving-") as name:
        folder = Path(name)
        records = Records(folder, build_schemas())
        for number in range(1, given.rounds + 1):
            rows = make_rows(number, given.clients)
            began = time.process_time()
            records.add_round(number, rows)
            if number > given.rounds - MEASURED:
                size += write_files(records, folder)
                milliseconds += 1e3 * (time.process_time() - began)
    print(
        f"{milliseconds / MEASURED:.1f} ms, {size / MEASURED / 1e3:.0f} kB a save from round "
        f"{given.rounds - MEASURED + 1} to {given.rounds} of {given.clients} clients"
    )


def write_files(records: Records, folder: Path) -> int:
    """Write the files of the last round, and count their bytes."""
    files = records.build_newest_files()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return sum(map(len, files.values()))


def make_rows(number: int, clients: int) -> Rows:
    """Make up the rows of a round in which every client was trained and tested."""
    rng = np.random.default_rng(number)
    columns = build_schemas()
    tests = [f"{test}_{score}" for test in TESTS for score in SCORES]
    client_rows = []
    for client in range(clients):
        scores = {
            name: rng.random(CLASSES).tolist() if name.endswith("_recall") else rng.random() for name in tests
        }
        client_rows.append(
            dict.fromkeys(columns["clients"].names) | {"round": number, "client": client} | scores
        )
    round_row = dict.fromkeys(columns["rounds"].names) | {"round": number}
    timing = dict.fromkeys(columns["timings"].names) | {"round": number}
    return {"rounds": [round_row], "clients": client_rows, "timings": [timing]}


if __name__ == "__main__":
    main()
