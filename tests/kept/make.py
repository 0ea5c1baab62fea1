"""Make `tests/kept/<version>/`: a storage as this version leaves it, and what later ones must find in it.

    python -m tests.kept.make

Made once a version, before its release, and never again. `kept.yaml`, `kept-search.yaml` and `halves.py` lie
there before. Written are

- `storage/`, where the search has finished, and the grid was interrupted (Ctrl-C) after the second round of
  its third run; without MLflow's files and figures, which are made from the others;
- `whole/`, records and last state of the interrupted run as they are without the interruption;
- `kept.zip`, a bundle of the grid's finished runs, with empty figures;
- `expected.json`: the ids of all runs, those of the grid with `--tuned kept-search`, the scores of the
  finished runs, and the ids of all algorithms, data sets and splits with the defaults of everything else.
"""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager
from importlib.metadata import version
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from tempfile import gettempdir
from unittest.mock import patch

from fedgrid import load
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.search.tuned_settings import read_tuned
from tests.helpers.command_line import fedgrid
from tests.helpers.undrawn import skip_drawing

HERE = Path(__file__).parent
BUNDLE = "kept.zip"
GIVEN = ("kept.yaml", "kept-search.yaml", "halves.py")
INTERRUPTED, ROUND = "digits-6-nonoverlapping-balanced-halves-s1", 2
DERIVED = ignore_patterns("mlflow*", "mlartifacts", "figures", "drivers", "*.lock")
NEEDED = {"fednova": {"training": {"optimizer": "sgd"}}, "flis": {"split": {"reference_images": 20}}}
"""First word of an algorithm's name -> keys without which it does not run."""


@contextmanager
def interrupted(name: str, number: int) -> Iterator[None]:
    """Within the block, a driver gets Ctrl-C at the end of round `number` of a run."""
    plain = Session.next_round

    def next_round(session: Session) -> RoundRecord:
        record = plain(session)
        assert session._run is not None
        if session._run.folder.config.name == name and record.round["round"] == number:
            os.kill(os.getpid(), signal.SIGINT)
        return record

    with patch.object(Session, "next_round", next_round):
        yield


def default_ids(names: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """Return the ids of runs with all defaults but one: of each name of each key."""
    active.use_plugins()

    def id_of(key: str, name: str) -> str:
        return complete_config({key: name, **NEEDED.get(name.partition("-")[0], {})}, HERE).run_id

    return {key: {name: id_of(key, name) for name in of_key} for key, of_key in names.items()}


def tuned_ids(storage: Storage) -> list[str]:
    """Return the ids of the current folder's grid, with the settings that the search has found."""
    overrides = [found.override for found in read_tuned(["kept-search"], storage)]
    return [run.run_id for run in load_grid("kept.yaml", {}, [], HERE, overrides=overrides).runs]


def main() -> None:
    """Make all of it; refuse to do so where it is."""
    target = HERE / version("fedgrid")
    if (target / "storage").exists():
        sys.exit(f"{target / 'storage'} is there, and is not made again")
    # The storage says where the files of its grids were.
    (work := Path(gettempdir(), "fedgrid-kept")).mkdir()
    try:
        with chdir(work):
            make(target)
    finally:
        rmtree(work)


def make(target: Path) -> None:
    """Run the grid twice, once interrupted, and the search, in the current folder; keep what they leave."""
    for name in GIVEN:
        Path(name).write_bytes((target / name).read_bytes())
    run = ("run", "kept.yaml", "--in-process", "--no-cache", "--storage")
    assert fedgrid(*run, "whole").code == 0
    with interrupted(INTERRUPTED, ROUND):
        assert fedgrid(*run, "storage").code == 130
    assert fedgrid("search", "kept-search.yaml", *run[2:], "storage").code == 0

    storage = Storage.from_text("storage")
    grids = {grid: GridFolder(storage, grid).read_runs() for grid in ("kept", "kept-search")}
    [whole] = [build_folder_path(Path("whole"), each) for each in grids["kept"] if each.name == INTERRUPTED]
    results = {run.run_id: run for grid in grids for run in load(grid, storage).finished}
    expected = {
        "runs": {grid: [each.run_id for each in runs] for grid, runs in grids.items()},
        "tuned": tuned_ids(storage),
        "scores": {run_id: dict(result.scores) for run_id, result in results.items()},
        "default_ids": default_ids({"algorithm": ALGORITHMS, "dataset": DATASETS, "split": KINDS}),
    }
    copytree("storage", target / "storage", ignore=DERIVED)
    with skip_drawing():
        assert fedgrid("bundle", "make", "kept", "-o", target / BUNDLE, "--storage", "storage").code == 0
    (target / "whole").mkdir()
    for path in (*whole.glob("rounds.*"), *whole.glob("clients.*"), *whole.glob("state-*000004.safetensors")):
        (target / "whole" / path.name).write_bytes(path.read_bytes())
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
