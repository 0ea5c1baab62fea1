"""`fedgrid cache`: the cache hits of a grid, and the size of its entries."""

import json
from io import StringIO

import pytest
from rich.console import Console

from fedgrid.engine.runtime.round_cache.files import list_entries
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.tables import format_size
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.round_cache.usage import Usage, build_cache_table, measure_cache_usage
from tests.helpers.cached_rounds import store_rounds
from tests.helpers.command_line import fedgrid, strict_json
from tests.helpers.finished_runs import mark_finished
from tests.helpers.run_records import write_timings
from tests.helpers.small_grid import config

fedavg, OCFL = config(seed=1), config(seed=1, algorithm="ocfl-kmeans")
"""They have the same shared prefix."""
WAITING = config(seed=2)
ELSEWHERE = config(seed=3)
"""Belongs to another grid."""


@pytest.fixture
def storage(tmp_path):
    """Two shared prefixes; one has two finished runs, and two of three rounds of the second were hits."""
    storage = Storage.from_text(tmp_path / "runs")
    timings(storage, fedavg, [(3, 2.0, 2.0), (3, 2.0, 2.0), (3, 2.0, 2.0)])
    timings(storage, OCFL, [(0, 0.5, 2.0), (0, 0.5, 2.0), (3, 1.0, 2.0)])
    for run in (fedavg, OCFL):
        mark_finished(storage.root, run)
    GridFolder(storage, "mine").keep([fedavg, OCFL, WAITING], "")
    store_rounds(storage, fedavg, WAITING, ELSEWHERE)
    return storage


def timings(storage, run, rounds):
    """Record (trained_clients of 3, seconds, uncached_seconds) a round."""
    folder = build_folder_path(storage.root, run)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("trained_clients", "seconds", "uncached_seconds")
    rows = [
        {"round": number, "reached_clients": 3, **dict(zip(names, row, strict=True))}
        for number, row in enumerate(rounds, start=1)
    ]
    write_timings(folder, rows)


def sizes(storage):
    """Return the size of a state and of a statistic; all states are alike, and so are all statistics."""
    entries = list_entries(storage)
    [state] = {entry.size for entry in entries if entry.is_state}
    [statistic] = {entry.size for entry in entries if not entry.is_state}
    return state, statistic


def test_usage_of_a_shared_prefix_whose_runs_are_finished(storage):
    state, statistic = sizes(storage)
    usage = measure_cache_usage([fedavg, OCFL, WAITING], storage)
    assert usage.shared_prefixes[fedavg.shared_prefix] == Usage(
        name="digits-3-nonoverlapping-balanced, seed 1",
        runs=2,
        finished=2,
        rounds=6,
        computed=4,
        taken=2,
        seconds=8.0,
        uncached_seconds=12.0,
        states_bytes=state,
        statistics_bytes=statistic,
        can_go_bytes=state,
    )
    assert usage.shared_prefixes[fedavg.shared_prefix].hit_share == pytest.approx(1 / 3)
    waiting = usage.shared_prefixes[WAITING.shared_prefix]
    assert (waiting.runs, waiting.finished, waiting.rounds, waiting.hit_share) == (1, 0, 0, None)
    assert (waiting.states_bytes, waiting.can_go_bytes) == (state, 0)
    assert (usage.total.runs, usage.total.states_bytes, usage.total.can_go_bytes) == (3, 2 * state, state)


def test_states_that_another_interrupted_grid_needs_are_not_evictable(storage):
    """Its run was stopped: no folder says that it is finished."""
    interrupted = config(seed=1, algorithm="briggs")
    assert interrupted.shared_prefix == fedavg.shared_prefix
    GridFolder(storage, "theirs").keep([interrupted], "")
    assert measure_cache_usage([fedavg, OCFL, WAITING], storage).total.can_go_bytes == 0
    result = fedgrid("cache", "mine", "--storage", storage.root)
    assert "2 unfinished runs need the states" in result.out


def test_grid_of_another_version_keeps_no_states(storage):
    (storage.root / "grids" / "older").mkdir()
    (storage.root / "grids" / "older" / "runs.jsonl").write_text("{}\n")
    assert measure_cache_usage([fedavg, OCFL, WAITING], storage).total.can_go_bytes > 0


def test_cache_command_prints_usage_and_next_step(storage):
    state, statistic = map(format_size, sizes(storage))
    result = fedgrid("cache", "mine", "--storage", storage.root)
    assert (result.code, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    numbers = f"2/2 6 2 33% 8.0 s 12 s {state} {statistic}"
    assert f"digits-3-nonoverlapping-balanced, seed 1 {numbers}" in lines
    assert any("4.0 s of 12 s" in line for line in lines)
    assert any(line.startswith(f"{state} of states ") and "`fedgrid run`" in line for line in lines)


def test_cache_command_prints_usage_as_json(storage):
    found = strict_json(fedgrid("cache", "mine", "--storage", storage.root, "--json").out)
    usage = measure_cache_usage([fedavg, OCFL, WAITING], storage)
    assert found == {"grid": "mine", **json.loads(json.dumps(usage.as_dict()))}
    assert [row["shared_prefix"] for row in found["shared_prefixes"]] == [
        fedavg.shared_prefix,
        WAITING.shared_prefix,
    ]


def test_cache_command_at_a_uri_reads_no_mirror_and_changes_none(storage, tmp_path, monkeypatch):
    """The mirror may be newer than the URI: an active run writes it first."""
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    there = Storage.from_text(f"local://{storage.root}")
    expected = measure_cache_usage([fedavg, OCFL, WAITING], storage)
    assert measure_cache_usage([fedavg, OCFL], there).shared_prefixes[fedavg.shared_prefix].rounds == 6
    result = fedgrid("cache", "mine", "--storage", f"local://{storage.root}", "--json")
    assert strict_json(result.out)["total"] == expected.total.as_dict()
    assert not list(there.root.rglob("timings.parquet"))


@pytest.mark.parametrize("width", [80, 132])
def test_cache_table_fits_the_terminal(width):
    """With the longest name and the widest numbers."""
    name = "bloodmnist-30-nonoverlapping-imbalanced, seed 10"
    usage = Usage(name, 28, 28, 28000, 14000, 14000, 359000.0, 7.3e5, 10**12, 10**11, 10**12)
    screen = StringIO()
    Console(width=width, file=screen).print(build_cache_table("Round cache, paper", [usage], usage))
    text = screen.getvalue()
    assert "…" not in text
    cells = ["28/28", "28000", "14000", "50%", "4 d 3 h", "8 d 10 h", "1.0 TB", "100.0 GB"]
    assert [cell for cell in cells if cell not in text] == []
    assert all(piece in text for piece in ("bloodmnist-30-", "nonoverlapping-", "imbalanced,", "seed 10"))
