"""What a command line asks to explain, and what is refused before anything starts."""

import re
from dataclasses import replace

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses.analysis import Context
from fedgrid.grids.analyses.run_selection import find_runs, split_finished
from fedgrid.grids.cli.actions.analyses import read_options
from fedgrid.grids.explain.analysis import EXPLAIN, ExplainOptions
from tests.helpers.explained import GRID, RUNS, UNFINISHED
from tests.helpers.small_grid import NOWHERE

MEMBERS = ("members",)


@pytest.fixture
def storage(finished):
    return finished


def refused(storage, runs=RUNS, **asked):
    with pytest.raises(ConfigError) as error:
        EXPLAIN.jobs(runs, ExplainOptions(on=MEMBERS, **asked), Context(storage, NOWHERE, {}))
    return str(error.value)


def test_grid_run_name_and_id_are_found(storage):
    every = (*RUNS, UNFINISHED)
    assert find_runs(GRID, storage, []) == (GRID, every)
    for run in every:
        assert find_runs(run.run_id, storage, []) == (GRID, (run,))
        assert find_runs(run.name, storage, []) == (GRID, (run,))


def test_unknown_name_is_answered_with_the_grids(storage):
    with pytest.raises(ConfigError, match=r"did you mean 'small'"):
        find_runs("smal", storage, [])
    with pytest.raises(ConfigError, match=r"no grid in .*--storage; `fedgrid run small --storage .*` starts"):
        find_runs(GRID, Storage(storage.root / "empty"), [])


def test_filters_keep_runs_by_axis_and_refuse_what_the_grid_lacks(storage):
    assert find_runs(GRID, storage, ["algorithm=fedavg", "seed=1"])[1] == RUNS[:1]
    with pytest.raises(ConfigError, match=r"algorithm=sattler: no run has .* there are fedavg, ocfl-kmeans"):
        find_runs(GRID, storage, ["algorithm=sattler"])
    with pytest.raises(ConfigError, match=r"--where alg=fedavg: no axis 'alg'"):
        find_runs(GRID, storage, ["alg=fedavg"])
    with pytest.raises(ConfigError, match="no run has .*seed=.2"):
        find_runs(GRID, storage, ["algorithm=ocfl-kmeans", "seed=2"])


def test_distributions_are_in_their_order_and_a_typing_error_is_named():
    assert read_options(EXPLAIN, []).on == ("members", "others", "server")
    assert read_options(EXPLAIN, ["on=server,members"]).on == ("members", "server")
    assert read_options(EXPLAIN, ["on=server"]).on == ("server",)
    with pytest.raises(ConfigError, match="on.* = 'member'.*'members'"):
        read_options(EXPLAIN, ["on=member"])


def test_run_that_is_not_finished_is_left_out_and_named(storage):
    finished, waiting = split_finished(GRID, (*RUNS, UNFINISHED), storage, "explain")
    assert (finished, waiting) == (list(RUNS), [UNFINISHED.name])
    with pytest.raises(ConfigError, match="none of the 1 runs of small is finished, .* nothing to explain"):
        split_finished(GRID, [UNFINISHED], storage, "explain")


def test_last_round_is_the_same_as_its_number_and_one_that_is_gone_is_answered_with_those_kept(storage):
    context = Context(storage, NOWHERE, {})
    (last,) = EXPLAIN.jobs(RUNS[:1], ExplainOptions(on=MEMBERS), context)
    (third,) = EXPLAIN.jobs(RUNS[:1], ExplainOptions(on=MEMBERS, round=3), context)
    assert last.key == third.key
    assert "no state after round 1, but after 2 and 3" in refused(storage, round=1)
    with pytest.raises(ConfigError, match="round.* = 'first'"):
        read_options(EXPLAIN, ["round=first"])


def test_run_without_a_state_is_refused(storage, tmp_path):
    gone = Storage(tmp_path)
    source, target = (build_folder_path(each.root, RUNS[0]) for each in (storage, gone))
    target.mkdir()
    for path in source.glob("*.*"):
        if not path.name.startswith("state-") and path.is_file():
            (target / path.name).write_bytes(path.read_bytes())
    message = refused(gone, RUNS[:1])
    assert message.startswith(f"{RUNS[0].name}: there is no state of it")


def test_more_images_or_steps_than_there_are_are_refused_with_the_most(storage):
    most = int(re.search(r"choose 1 to (\d+)$", refused(storage, images=10**6))[1])
    assert f"images={most + 1}: client" in refused(storage, images=most + 1)
    EXPLAIN.jobs(RUNS, ExplainOptions(on=MEMBERS, images=most), Context(storage, NOWHERE, {}))
    assert refused(storage, steps=65).startswith("steps: 65 steps for an image of 64 pixels")


def test_options_that_as_published_fixes_are_refused():
    for fixed in ("steps=8", "baseline=blur"):
        with pytest.raises(ConfigError, match=f"{fixed} with as_published=true"):
            read_options(EXPLAIN, [fixed, "as_published=true"])


def test_model_that_names_no_layer_is_refused(storage, monkeypatch):
    entry = MODELS["digitnet"]
    monkeypatch.setitem(MODELS, "digitnet", replace(entry, saliency_layer=None))
    assert "give its ModelEntry saliency_layer='input'" in refused(storage)
