"""`fedgrid run --dry-run`: what it shows of a grid, and that it writes nothing."""

from itertools import product

import pytest
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import Node, Placement, PlacementRequest
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.planning import dry_run as planning
from fedgrid.grids.planning import estimate
from fedgrid.grids.planning.dry_run import show_plan
from fedgrid.grids.planning.estimate import Capacity, compute_capacities
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from tests.helpers.command_line import assume_speed, fedgrid, strict_json
from tests.helpers.manifests import list_files

TWO_CORES = [Node(2, 0)]
AUTO = PlacementRequest()


def runs_of(data_dir, **values):
    return [
        complete_config(
            {"dataset": "digits", "split": split, "clients": clients, "algorithm": name, **values},
            data_dir,
        )
        for split, clients, name in product(
            ("overlapping-balanced", "nonoverlapping-balanced"),
            (5, 10),
            ("fedavg", "sattler", "ocfl-hdbscan"),
        )
    ]


@pytest.fixture
def show(tmp_path, tmp_path_factory, capsys, monkeypatch):
    """Return a function that shows a grid on 80 columns and returns the text. Nothing may be written."""
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path_factory.mktemp("cache")))

    def run(runs, nodes=TWO_CORES, request=AUTO, *, as_json=False, with_cache=True, measured=False):
        if not measured:
            monkeypatch.setattr(estimate, "time_training", assume_speed)
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(planning, "find_nodes_to_run_on", lambda **_: nodes)
        cache = CacheOptions() if with_cache else None
        options = LaunchOptions(tmp_path / "data", request, as_json=as_json, cache=cache)
        grid, storage = Grid("mine", tuple(runs), ""), Storage(tmp_path / "runs")
        show_plan(grid, (), (), storage, options, Console(width=80))
        assert sorted(tmp_path.rglob("*")) == before
        return capsys.readouterr().out

    return run


def store_rounds(tmp_path, run, rounds_done):
    """Write the manifest of a run that has so many of its 15 rounds."""
    folder = build_folder_path(tmp_path / "runs", run)
    folder.mkdir(parents=True)
    list_files(folder, rounds=15, rounds_done=rounds_done, is_finished=rounds_done == 15)


def row(text, start):
    """Return the words of the line that starts with `start`."""
    [line] = [line for line in text.splitlines() if line.strip().startswith(start)]
    return " ".join(line.split())


@pytest.mark.parametrize("dry", [["--dry-run"], []], ids=["dry run", "run"])
@pytest.mark.parametrize(
    ("options", "settings", "says"),
    [
        (["--track", "wandb"], {}, "unknown tracker 'wandb'; known: mlflow, tensorboard, none"),
        (["--imported", "nothing"], {}, "--imported nothing: unknown grid 'nothing'"),
        ([], {"FEDGRID_DATA": "file"}, "/file is a file; name a folder for the images"),
        (["--track", "mlflow"], {"MLFLOW_TRACKING_URI": "mlruns"}, "MLFLOW_TRACKING_URI is 'mlruns'"),
    ],
)
def test_dry_run_refuses_what_a_run_refuses(tmp_path, monkeypatch, dry, options, says, settings):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = fedgrid("run", "quickstart", "--in-process", *options, *dry, **settings)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_dry_run_in_process_shows_no_resources_of_a_cluster(show):
    """One core: the runs take twice as long as on two."""
    text = show(runs_of("."), nodes=[])
    assert "In this process: one run after another, on one core, without Ray." in text
    assert "Resources" not in text
    plan = strict_json(show(runs_of("."), nodes=[], as_json=True))
    assert (plan["nodes"], plan["resources"]) == ([], [])


def test_dry_run_of_twelve_runs_on_digits(show):
    """15 rounds each. Both cores are busy with a run of one actor each; there is nothing to download."""
    text = show(runs_of("."), measured=True)
    assert text.splitlines()[0].strip() == "Grid mine"
    assert row(text, "digits").startswith("digits 12 0 180 5, 10 – ")
    assert row(text, "total").startswith("total 12 0 180 – ")
    assert row(text, "5 ") == "5 server with 5 clients, 1 CPU 2"
    assert row(text, "10 ") == "10 server with 10 clients, 1 CPU 2"
    assert "Here: 2 CPUs and 0 GPUs." in text
    assert "one training step a model on random images, on a\ncore of" in text
    assert "Nothing was started, downloaded or written." in text
    assert max(map(len, text.splitlines())) <= 80


def test_dry_run_counts_only_the_rounds_left(show, tmp_path):
    """One run is finished, another has 4 of 15 rounds: 11 + 10 x 15 = 161 are left."""
    first, second, *_ = runs = runs_of(".")
    store_rounds(tmp_path, first, 15)
    store_rounds(tmp_path, second, 4)
    assert row(show(runs), "digits").startswith("digits 12 1 161 ")


def test_dry_run_of_a_finished_grid_shows_no_time(show, tmp_path):
    runs = runs_of(".")
    for run in runs:
        store_rounds(tmp_path, run, 15)
    text = show(runs)
    assert row(text, "total") == "total 12 12 0 – –"
    assert "Time" not in text


def test_dry_run_shows_the_size_of_missing_downloads(show):
    runs = [*runs_of(".")[:1], complete_config({"dataset": "mnist", "clients": 5, "model": "digitnet"}, ".")]
    text = show(runs)
    assert row(text, "mnist").startswith("mnist 1 0 50 5 12 MB ")
    assert row(text, "total").startswith("total 2 0 65 12 MB ")


def test_dry_run_as_json(show):
    found = strict_json(show(runs_of("."), as_json=True))
    [digits] = found["datasets"]
    assert digits.pop("hours") > 0
    assert digits == {
        "dataset": "digits",
        "runs": 12,
        "shared_prefixes": 4,
        "finished": 0,
        "rounds_left": 180,
        "clients": [5, 10],
        "download_mb": 0,
        "encoders": 0,
    }
    assert (found["total"]["runs"], found["total"]["shared_prefixes"]) == (12, 4)
    assert [(row["clients"], row["at_once"]) for row in found["resources"]] == [(5, 2), (10, 2)]
    assert found["nodes"] == [{"cpus": 2, "gpus": 0, "memory": None, "gpu_memory": None}]


def test_dry_run_says_that_runs_of_one_shared_prefix_share_rounds_if_there_is_a_cache(show):
    """Two splits and two numbers of clients, three algorithms each."""
    assert "12 runs, 4 shared prefixes" in show(runs_of("."))
    alone = [run for run in runs_of(".") if run.algorithm.name == "fedavg"]
    for text in (show(runs_of("."), with_cache=False), show(alone)):
        assert "At most" not in text


def test_dry_run_places_one_shared_prefix_like_one_run_if_there_is_a_cache(show):
    """Three runs with one shared prefix: one at a time, two actors; without a cache, two, an actor each."""
    alike = runs_of(".")[:3]
    assert row(show(alike), "5 ") == "5 server + 2 actors of 2 or 3 clients, 0.95 CPU each 1"
    assert row(show(alike, with_cache=False), "5 ") == "5 server with 5 clients, 1 CPU 2"


def test_dry_run_on_a_cluster_with_gpus(show):
    text = show(runs_of("."), [Node(4, 0), Node(16, 1)])
    assert row(text, "5 ") == "5 server + 5 clients x 1 CPU, 0.0666 GPU 3"
    assert "Here: 2 nodes with 20 CPUs and 1 GPU, at most 16 and 1 on one." in text


def test_dry_run_refuses_a_run_that_cannot_fit(show):
    with pytest.raises(ConfigError, match="--gpus-per-actor 0.5, .* no GPU"):
        show(runs_of("."), request=PlacementRequest(gpus_per_client=0.5))


@pytest.mark.parametrize(
    ("nodes", "request_", "waiting", "workers"),
    [
        (TWO_CORES, PlacementRequest(), 12, 2),
        (TWO_CORES, PlacementRequest(), 1, 2),
        ([Node(64, 0)], PlacementRequest(), 3, 15),
        (TWO_CORES, PlacementRequest(clients_per_actor=1), 12, 2),
        ([Node(16, 2)], PlacementRequest(), 12, 2),
    ],
    ids=["a run a core", "one run on two cores", "as many as clients", "actors share cores", "and GPUs"],
)
def test_capacity_counts_the_busy_cores_or_gpus(nodes, request_, waiting, workers):
    """Three runs with five clients on 64 cores: every client has its own core."""
    left = [(run, 15) for run in runs_of(".") if run.clients == 5][:1] * waiting
    assert compute_capacities(left, nodes, request_)[5].workers == workers


@pytest.mark.parametrize(
    ("placement", "reserves"),
    [
        (Placement(15, 1.0, 0.05), "server + 15 clients x 1 CPU, 0.05 GPU"),
        (Placement(15, 1.0, 0.05, 2.5e9), "server + 15 clients x 1 CPU, 0.05 GPU, 2.5 GB main memory"),
        (Placement(1, 0.9, 0.0), "server + 1 actor of 15 clients, 0.9 CPU"),
        (Placement(1, 0.9, 0.0, in_server=True), "server with 15 clients, 1 CPU"),
        (Placement(2, 0.95, 0.0), "server + 2 actors of 7 or 8 clients, 0.95 CPU each"),
        (Placement(5, 1.0, 0.0), "server + 5 actors of 3 clients, 1 CPU each"),
    ],
)
def test_capacity_describes_what_a_run_reserves(placement, reserves):
    assert Capacity(15, placement, 1, 1).reserves == reserves


def test_runs_are_listed_with_their_ids_and_how_far_they_are(show, tmp_path):
    runs = runs_of(tmp_path)[:3]
    store_rounds(tmp_path, runs[1], 15)
    lines = [line.split() for line in show(runs).splitlines()]
    listed = {line[0]: line[-1] for line in lines if line and line[0] in {run.run_id for run in runs}}
    assert listed == {runs[0].run_id: "new", runs[1].run_id: "finished", runs[2].run_id: "new"}
    as_json = strict_json(show(runs, as_json=True))["runs"]
    assert [run["rounds_left"] for run in as_json] == [15, 0, 15]
    many = show(runs_of(tmp_path) + runs_of(tmp_path, seed=1))
    assert "  and 4 more; all of them with --json" in many
