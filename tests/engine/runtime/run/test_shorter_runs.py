"""Runs that start with the rounds of a finished run of the same configuration, but for fewer rounds."""

from shutil import copytree

import pytest

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.run.shorter_runs import find_shorter_run
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.manifest import ProvenancePart, read_manifest
from tests.helpers import small_runs
from tests.helpers.manifests import list_files
from tests.helpers.small_runs import NOWHERE, read_numbers


def config(rounds=5, **given):
    return small_runs.config(**{**given, "training": {"rounds": rounds}})


def opened(run, storage, **options):
    """Return a session that is to run a run, and the number of rounds that it has already."""
    session = Session(InProcessPool(), NOWHERE, cache=CacheOptions(**options))
    return session, session.open(run, Storage.from_text(storage))


def finish(run, storage):
    """Take a run to its end; return the number of rounds that it had from another run."""
    session, had = opened(run, storage)
    for _ in range(had, run.training.rounds):
        session.next_round()
    return had


@pytest.mark.parametrize(
    ("evaluation", "common", "given"),
    [
        ({}, 3, {"algorithm": "ocfl-kmeans"}),
        ({"every": 2}, 2, {"algorithm": "scaffold", "participation": 0.5, "dropout": 0.3}),
        ({}, 2, {"algorithm": "ocfl-kmeans", "held_out": 0.2}),
        ({"local_server": "last"}, 2, {}),
    ],
    ids=["clusters", "clients remember", "held out", "last tests"],
)
def test_longer_run_has_the_bytes_of_an_uninterrupted_one(tmp_path, evaluation, common, given):
    """With a test in every other round only a run of three rounds tests the third."""
    run = config(**given, evaluation=evaluation)
    finish(run.with_rounds(3), tmp_path / "taken")
    assert finish(run, tmp_path / "taken") == common
    finish(run, tmp_path / "whole")
    assert read_numbers(build_folder_path(tmp_path / "taken", run)) == read_numbers(
        build_folder_path(tmp_path / "whole", run)
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A storage with finished runs of two and three rounds."""
    storage = tmp_path_factory.mktemp("finished")
    for rounds in (2, 3):
        finish(config(rounds), storage)
    return storage


def test_the_longest_run_of_the_same_configuration_counts(finished):
    storage = Storage.from_text(finished)
    assert find_shorter_run(config(), storage) == (config(3), 3)
    assert find_shorter_run(config(3), storage) == (config(2), 2)
    for other in (config(2), config(seed=1), config(weights="images")):
        assert find_shorter_run(other, storage) is None
    assert config().adds_rounds(config(3))
    assert not any(config(3).adds_rounds(other) for other in (config(3), config(), config(2, seed=1)))


def edit_code(folder):
    [part] = read_manifest(folder).made_with
    list_files(folder, made_with=(ProvenancePart(part.from_round, {**part.made_with, "code": "0" * 64}),))


@pytest.mark.parametrize(
    "change",
    [
        edit_code,
        lambda folder: (folder / "state-000003.safetensors").write_bytes(b""),
        lambda folder: (folder / "clients.parquet").unlink(),
    ],
    ids=["other code", "damaged state", "no records"],
)
def test_rounds_that_are_damaged_or_made_otherwise_are_computed(finished, tmp_path, change):
    storage = copytree(finished, tmp_path / "runs")
    change(build_folder_path(storage, config(3)))
    assert opened(config(), storage)[1] == 0


def test_a_run_that_is_to_start_over_takes_no_rounds(finished, tmp_path):
    storage = copytree(finished, tmp_path / "runs")
    assert opened(config(), storage, takes_rounds=False)[1] == 0
    assert opened(config(), storage)[1] == 3
