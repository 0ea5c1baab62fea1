"""Launch one grid in turns with other images, another torch and a newer fedgrid, on one storage.

python -m tests.chaos.versions --turns 12 --seed 0

Each turn is a process of its own that is killed after a round, unless it is refused. Another version of torch
and another format of the code (a copy of it that says `FORMAT = 2`) must be refused in one line and change no
file of the storage but the lease. Own images are named by their content, so changed ones make other runs:
such a launch trains those, and must change no file of the runs of the first images. At the end an undisturbed
launch finishes the grid. All records and scores of its runs must be the same bytes as those of a grid that
nothing disturbed.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.helpers.changed_code import copy_with_changes

GRID = """
dataset: npz:{images}
clients: 3
algorithm: [fedavg, ocfl-kmeans]
model: digitnet
split: {{kind: majority, draws: 6}}
training: {{rounds: 8, local_epochs: 1, batch_size: 8}}
"""
MAIN = "from fedgrid.grids.cli.main import main; main()"
OTHER_TORCH = (
    "import importlib.metadata as m; known = m.version; "
    "m.version = lambda name: '99.1' if name == 'torch' else known(name); "
)
NUMBERS = ("rounds.parquet", "clients.parquet", "scores.json")
SAID = {"torch": "torch", "newer": "format", "later": "another fedgrid"}
"""Turn -> what its one line says; `later` is this code after a newer one's launch."""


@dataclass(frozen=True)
class Place:
    """Where the turns take place."""

    folder: Path

    @property
    def images(self) -> Path:
        """The images that the grid names."""
        return self.folder / "mine.npz"

    @property
    def newer(self) -> Path:
        """The copy of the code."""
        return self.folder / "newer"

    def prepare(self) -> None:
        """Write the images, the grid and the newer code."""
        self.write_images(seed=0)
        (self.folder / "exp.yaml").write_text(GRID.format(images=self.images))
        copy_with_changes(self.newer, "engine/federation/format.py", {"FORMAT": "2"})

    def write_images(self, seed: int) -> None:
        """Write two classes, forty images to draw from and ten at the server."""
        rng = np.random.default_rng(seed)
        arrays = {}
        for part, number in (("train", 40), ("test", 10)):
            labels = np.arange(number) % 2
            pixels = rng.integers(0, 100, (number, 8, 8)) + 100 * labels[:, None, None]
            arrays |= {f"{part}_images": pixels.astype(np.uint8), f"{part}_labels": labels}
        np.savez(self.images, **arrays)

    def launch(self, storage: Path, turn: str = "same", stop: bool = False) -> tuple[int | None, str]:
        """Launch the grid; return the exit code, None if it was killed after a round, and standard error."""
        self.write_images(seed=1 if turn == "images" else 0)
        code = (OTHER_TORCH if turn == "torch" else "") + MAIN
        given = ["run", "exp.yaml", "--storage", str(storage), "--in-process", "--json"]
        own = {"FEDGRID_CACHE": str(self.folder / "cache"), "MLFLOW_TRACKING_URI": ""}
        paths = {"PYTHONPATH": str(self.newer)} if turn == "newer" else {}
        driver = subprocess.Popen(
            [sys.executable, "-c", code, *given],
            cwd=self.folder,
            env={**os.environ, **own, **paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert driver.stdout is not None
        for line in driver.stdout if stop else ():
            if json.loads(line)["event"] == "round":
                driver.kill()
                driver.communicate()
                return None, ""
        _, err = driver.communicate()
        return driver.returncode, err


def contents(storage: Path) -> dict[str, bytes]:
    """Return the bytes of the files of all runs and grids, without logs."""
    paths = (path for pattern in ("*-*/*", "grids/*/*") for path in storage.glob(pattern) if path.is_file())
    return {str(path.relative_to(storage)): path.read_bytes() for path in paths if path.name != "log.txt"}


def numbers(storage: Path) -> dict[str, bytes]:
    """Return the bytes of what must be the same whenever the grid is run."""
    return {name: data for name, data in contents(storage).items() if name.endswith(NUMBERS)}


def files_of_runs(storage: Path, runs: set[str]) -> dict[str, bytes]:
    """Return the bytes of the files of runs with these folders."""
    return {name: data for name, data in contents(storage).items() if name.split("/")[0] in runs}


def faults(turn: str, code: int | None, err: str, is_same: bool) -> list[str]:
    """Return what is wrong with the end of a turn that is to be refused."""
    wrong = [f"{turn}: exit code {code}, expected 2: {err[-200:]!r}"] if code != 2 else []
    if len(err.splitlines()) != 1 or SAID[turn] not in err:
        wrong.append(f"{turn}: said {err[-300:]!r}")
    return wrong + ([] if is_same else [f"{turn}: files have changed"])


def main() -> int:
    """Take the turns; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    ends: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place, storage = Place(Path(folder)), Path(folder) / "runs"
        place.prepare()
        undisturbed = Path(folder) / "undisturbed"
        code, err = place.launch(undisturbed)
        assert code == 0, err
        expected = numbers(undisturbed)
        runs = {name.split("/")[0] for name in expected}
        code, err = place.launch(storage, stop=True)
        assert code is None, err
        kinds = ["same", "images", "torch", "newer"]
        turns = [kinds[number % len(kinds)] for number in range(given.turns)]
        rng.shuffle(turns)
        for turn in turns:
            before = contents(storage)
            code, err = place.launch(storage, turn, stop=True)
            if turn in ("same", "images"):
                ends["went on" if code in (None, 0) else "failed"] += 1
                wrong += [] if code in (None, 0) else [f"{turn}: {err}"]
                first = {name: data for name, data in before.items() if name.split("/")[0] in runs}
                if turn == "images" and files_of_runs(storage, runs) != first:
                    wrong.append("images: files of the runs of the first images have changed")
            else:
                ends["refused" if code == 2 else "not refused"] += 1
                wrong += faults(turn, code, err, contents(storage) == before)
            print(f"{turn}: {err.strip() or 'went on'}", flush=True)
        code, err = place.launch(storage)
        wrong += [] if code == 0 else [f"the end: {err}"]
        at_end = numbers(storage)
        differing = [name for name, data in expected.items() if at_end.get(name) != data]
        later = Path(folder) / "newer-first"
        place.launch(later, "newer", stop=True)
        before = contents(later)
        code, err = place.launch(later)
        wrong += faults("later", code, err, contents(later) == before)
        print(f"after a newer one: {err.strip()}", flush=True)
    said = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    for text in wrong:
        print(f"WRONG {text}")
    print(f"{given.turns} turns: {said}; {len(differing)} files differ; {len(wrong)} wrong")
    return 1 if wrong or differing else 0


if __name__ == "__main__":
    sys.exit(main())
