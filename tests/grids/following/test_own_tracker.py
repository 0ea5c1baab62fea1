"""A plugin's tracker: chosen by name, told of every run, and never in the way of the others."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following.registry import find_tracker
from fedgrid.grids.following.trackers import Pauses, Trackers
from fedgrid.grids.planning.options import parse_trackers
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.trackers.tracker import TrackedGrid
from tests.helpers.command_line import fedgrid
from tests.helpers.logged_runs import ROUNDS, build_config, write_run

pytestmark = pytest.mark.usefixtures("in_mlflow")

CODE = '''
import fedgrid


class Written(fedgrid.Tracker):
    """Writes a line a call, into the storage."""

    name = "written"

    def say(self, *words):
        with (self.grid.storage.root / "told.txt").open("a") as file:
            print(*words, file=file)

    def opened(self, run):
        self.say("opened", run.config.seed)
        return 0

    def round(self, run, number, scores, ended_ms):
        self.say("round", run.config.seed, number, scores["ari"])

    def artifact(self, run, path, folder=""):
        self.say("artifact", "-" if run is None else run.config.seed, path.name)

    def finished(self, run):
        self.say("finished", run.config.seed)

    def failed(self, run, status):
        self.say("failed", run.config.seed, status)


class Broken(fedgrid.Tracker):
    """Raises in the second round, until there is a file `room`."""

    name = "broken"

    def round(self, run, number, scores, ended_ms):
        if number == 2 and not (self.grid.storage.root / "room").exists():
            raise ValueError("no room")


TRACKERS = [Written, Broken]
'''
A = build_config(0)


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "own_tracker.py"
    file.write_text(CODE)
    active.use_plugins([file])
    yield file
    active.use_plugins([])


def told(storage):
    return (storage / "told.txt").read_text().splitlines()


def launched(storage, warnings, names, rounds):
    place = Storage(storage)
    GridFolder(place, "mine").keep([A], "")
    pauses = Pauses(poll=0.01, retry=0.01, flush=60)
    trackers = Trackers(TrackedGrid("mine", place), warnings.append, names, pauses)
    with trackers.follow_runs([A]):
        write_run(storage, A, rounds)
        trackers.set_end([], 1, 0)


def test_tracker_of_a_plugin_is_told_of_each_round_once(plugin, storage):
    warnings = []
    launched(storage, warnings, ["written"], ROUNDS)
    lines = told(storage)
    assert warnings == []
    assert [line for line in lines if not line.startswith("artifact")] == [
        "opened 0",
        *("round 0 1 0.0", "round 0 2 0.0", "round 0 3 1.0", "round 0 4 1.0"),
        "finished 0",
    ]
    assert {"artifact 0 rounds.parquet", "artifact 0 config.json"} <= {*lines}


def test_interrupted_run_is_told_as_failed(plugin, storage):
    launched(storage, [], ["written"], 2)
    assert told(storage)[-1] == "failed 0 KILLED"


def test_tracker_that_raises_has_one_warning_and_the_others_go_on(plugin, storage):
    warnings = []
    launched(storage, warnings, ["broken", "written"], ROUNDS)
    fault, lacking = warnings
    assert fault.startswith("tracker broken: ValueError('no room'); training goes on")
    assert lacking.startswith("1 run is not, or not completely, in tracker broken; `fedgrid sync mine")
    assert f"--track broken --plugin {plugin}" in lacking
    assert told(storage)[-1] == "finished 0"


def test_class_that_raises_in_the_driver_stops_nothing(plugin, storage, monkeypatch):
    warnings = []
    trackers = Trackers(TrackedGrid("mine", Storage(storage)), warnings.append, ["written"])
    monkeypatch.setattr(find_tracker("written"), "lacks", lambda run, grid: 1 / 0)
    assert trackers.find_lacking_runs([A]) == []
    assert warnings == ["tracker written: ZeroDivisionError('division by zero')"]


def test_unknown_tracker_is_refused_by_name_and_none_stands_alone(plugin):
    with pytest.raises(ConfigError, match="unknown tracker 'mlfow'.*mlflow"):
        find_tracker("mlfow")
    with pytest.raises(ConfigError, match="none stands alone"):
        parse_trackers("none,mlflow")
    assert parse_trackers("none") == ()
    assert parse_trackers(" mlflow, tensorboard,mlflow") == ("mlflow", "tensorboard")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CODE.replace('name = "broken"', 'name = "mlflow"'), "'mlflow' is both of fedgrid and of a plugin"),
        ("TRACKERS = [3]\n", "TRACKERS has 3; expected classes derived from Tracker"),
    ],
    ids=["a name of the package", "no class"],
)
def test_plugin_with_a_wrong_tracker_is_refused(tmp_path, text, says):
    (tmp_path / "wrong.py").write_text(text)

    def find_mlflow():
        active.use_plugins([tmp_path / "wrong.py"])
        find_tracker("mlflow")

    try:
        with pytest.raises(ConfigError, match=says):
            find_mlflow()
    finally:
        active.use_plugins([])


@pytest.mark.slow
def test_run_with_trackers_in_processes_of_their_own(tmp_path, storage):
    """The run has the id that it has without them. A later `sync` tells what a broken tracker lacks."""
    file = tmp_path / "own_tracker.py"
    file.write_text(CODE)
    options = ("--dataset", "digits", "--algorithm", "fedavg", "--clients", 3, "training.rounds=2")
    at = ("--storage", storage)
    first = fedgrid("run", *options, *at, "--in-process", "--track", "none", "--name", "mine")
    assert (first.code, first.err) == (0, "")
    assert not (storage / "tensorboard").exists()
    assert "MLflow" not in first.out
    chosen = ("--track", "tensorboard,written,broken", "--plugin", file)
    assert fedgrid("run", *options, *at, "--in-process", *chosen, "--fresh", "--name", "mine").code == 0
    assert len(list(storage.glob("digits-*"))) == 1
    assert len(list(storage.glob("tensorboard/mine/digits-*/whole"))) == 1
    calls = [line.partition(" ")[0] for line in told(storage)]
    assert list(dict.fromkeys(calls)) == ["opened", "round", "artifact", "finished"]
    assert calls.count("round") == 2
    (storage / "room").touch()
    again = fedgrid("sync", "mine", *at, "--track", "broken", "--plugin", file)
    assert "2 rounds of 1 runs logged; tracker broken has all of mine" in again.out
    nowhere = fedgrid("sync", "mine", *at, "--track", "none", "--plugin", file)
    assert (nowhere.code, "--track none" in nowhere.err) == (2, True)
