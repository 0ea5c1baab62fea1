"""`fedgrid show` of a grid and of a run."""

import json
from shutil import copytree

import numpy as np
import pytest

from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.grids.browse.run_page import choose_rounds
from fedgrid.tracking.records import read_records
from tests.grids.browse.conftest import EARLY, LATE, PLAIN, WAITING
from tests.helpers.command_line import fedgrid, strict_json
from tests.helpers.manifests import list_files


@pytest.fixture
def show(browsed):
    def call(*arguments):
        return fedgrid("show", *arguments, "--storage", browsed.root)

    return call


def test_a_grid_shows_its_axes_scores_and_the_next_commands(show):
    out = show("mine").out
    assert out.startswith("mine: not running\n4 runs: 3 done, 0 running, 1 waiting, 0 failed\nFrom options\n")
    assert "algorithm.round  2, 3" in out
    assert "round 2" in out
    assert f"fedgrid show {EARLY.run_id}" in out
    facts = strict_json(show("mine", "--json").out)
    assert [run["state"] for run in facts["runs"]] == ["finished"] * 3 + ["not started"]
    assert facts["axes"]["seed"] == ["1", "2"]


def test_a_run_is_found_by_its_id_the_beginning_of_one_and_its_folder(show, browsed):
    for name in (LATE.run_id, LATE.run_id[:6], build_folder_path(browsed.root, LATE)):
        assert strict_json(show(name, "--json").out)["run_id"] == LATE.run_id


def test_a_run_shows_what_differs_from_the_defaults_and_what_happened(show, browsed):
    facts = strict_json(show(EARLY.run_id, "--json").out)
    assert facts["changed"]["training.rounds"]["value"] == 3
    assert facts["changed"]["algorithm.round"]["value"] == 2
    assert "algorithm.linkage" not in facts["changed"]
    records = read_records(build_folder_path(browsed.root, EARLY))
    assert facts["clusters"] == records.clients["cluster"].tolist()
    assert facts["curves"]["temperature"] == records.rounds["temperature"].tolist()
    assert list(facts["events"]) == ["2"]
    out = show(EARLY.run_id).out
    assert "algorithm.round  " in out
    assert facts["events"]["2"] in out
    assert str(build_folder_path(browsed.root, EARLY)) in out


def test_figure_of_a_run_is_drawn_where_it_is_asked_for(show, tmp_path):
    to = tmp_path / "run.svg"
    facts = strict_json(show(EARLY.run_id, "--figure", to, "--json").out)
    assert facts["figure"] == str(to)
    assert to.read_text().count("<svg") == 1
    assert f"Written to {to}" in show(EARLY.run_id, "--figure", to).out
    assert show(EARLY.run_id, "--figure", tmp_path / "none" / "run.svg").code == 2
    refused = show("mine", "--figure", to)
    assert (refused.code, "`fedgrid show mine --storage " in refused.err) == (2, True)
    assert show(WAITING.run_id, "--figure", to).code == 1


def test_a_run_that_has_not_started_shows_its_settings_alone(show):
    result = show(WAITING.run_id)
    assert (result.code, result.err) == (0, "")
    assert "not started" in result.out
    assert strict_json(show(WAITING.run_id, "--json").out)["round"] == []


def test_a_name_of_several_runs_is_refused_with_their_ids(show):
    result = show(EARLY.name)
    assert result.code == 2
    assert f"2 runs are named '{EARLY.name}': {EARLY.run_id}, {LATE.run_id}" in result.err


def test_a_run_in_no_grid_is_found_by_its_folder(browsed, tmp_path):
    """As one of `fedgrid.run`. Files of another format beside it are none of ours."""
    folder = tmp_path / build_folder_path(browsed.root, PLAIN).name
    folder.mkdir()
    folder.joinpath("config.json").write_text(json.dumps(PLAIN.written()))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"format": 1}')
    found = fedgrid("show", PLAIN.run_id, "--storage", tmp_path, "--json")
    assert strict_json(found.out)["grids"] == []


def test_short_table_of_rounds_keeps_the_first_the_last_and_eventful_ones():
    assert choose_rounds(np.arange(1, 6), {}) == [1, 2, 3, 4, 5]
    chosen = choose_rounds(np.arange(1, 201), {77: "1 -> 3 clusters"})
    assert {1, 77, 200} <= set(chosen)
    assert len(chosen) <= 12


@pytest.mark.parametrize("unfinished", [False, True])
def test_damaged_records_are_named(browsed, tmp_path, unfinished):
    storage = copytree(browsed.root, tmp_path / "runs")
    folder = build_folder_path(storage, PLAIN)
    if unfinished:
        (folder / "scores.json").unlink()
        list_files(folder, is_finished=False)
    for name in ("rounds.parquet", "timings.parquet"):
        (folder / name).write_bytes(b"no table")
    facts = strict_json(fedgrid("show", PLAIN.run_id, "--json", "--storage", storage).out)
    assert f"{folder}/" in facts["cause"]
    assert f"{folder}/timings.parquet is damaged" in fedgrid("cache", "mine", "--storage", storage).err


def test_run_whose_configuration_is_damaged_is_named_where_a_run_is_not_found(browsed, tmp_path):
    copytree(browsed.root, tmp_path / "runs")
    path = build_folder_path(tmp_path / "runs", PLAIN) / "config.json"
    path.write_text("{")
    refused = fedgrid("show", "nothing", "--storage", tmp_path / "runs")
    assert (refused.code, refused.out) == (2, "")
    assert f"{path} is not read" in refused.err
