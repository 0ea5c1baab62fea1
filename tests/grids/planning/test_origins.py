"""A launch notices that images, code or versions have changed since its runs were made, finished ones too."""

import re
from functools import partial

import numpy as np
import pytest

from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.integrity import made_with as module
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.run.prepare import _load_images
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.format import OtherVersion
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.one_run import run as run_one
from fedgrid.grids.planning.checks import check_origins
from fedgrid.manifest import MANIFEST, read_manifest
from fedgrid.sealed_json import LAYOUT
from tests.helpers.manifests import list_files


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    yield
    _load_images.cache_clear()


def write_images(path, seed=0):
    """Two classes, forty images to draw from and ten at the server."""
    rng = np.random.default_rng(seed)
    labels = {"train": np.arange(40) % 2, "test": np.arange(10) % 2}
    images = {
        part: (rng.integers(0, 100, (len(of), 8, 8)) + 100 * of[:, None, None]) for part, of in labels.items()
    }
    np.savez(
        path,
        **{f"{part}_images": images[part].astype(np.uint8) for part in labels},
        **{f"{part}_labels": labels[part] for part in labels},
    )


@pytest.fixture
def images(tmp_path):
    write_images(tmp_path / "mine.npz")
    return tmp_path / "mine.npz"


@pytest.fixture
def made(tmp_path, images):
    """Return a function that takes a run of the images some rounds further; and its configuration."""
    given = {"dataset": f"npz:{images}", "clients": 3, "algorithm": "fedavg"}
    split = {"kind": "majority", "draws": 6, "server_images": None}
    settings = {"model": "digitnet", "training": {"rounds": 3, "local_epochs": 1, "batch_size": 8}}
    config = complete_config({**given, **settings, "split": split}, tmp_path)
    storage = Storage.from_text(tmp_path / "runs")

    def go_on(rounds, accept=False):
        _load_images.cache_clear()
        opened = Session(InProcessPool(), tmp_path, accept_changes=accept)
        opened.open(config, storage)
        for _ in range(rounds):
            opened.next_round()
        return build_folder_path(storage.root, config)

    return config, storage, go_on, partial(check_origins, [config], storage, tmp_path)


def other_torch(monkeypatch):
    """Let this process seem to have another torch."""
    versions = module.find_versions()
    monkeypatch.setattr(module, "find_versions", lambda *_: {**versions, "torch": "99.1"})


def test_run_says_what_it_was_made_with(made):
    _, _, go_on, check = made
    [part] = load_parts(go_on(1))
    assert part.from_round == 1
    assert {"images", "code", "python", "fedgrid", "torch", "numpy", "processor"} <= part.made_with.keys()
    assert check() == []


@pytest.mark.parametrize(("name", "needs"), [("louvain", True), ("leiden", True), ("fedavg", False)])
def test_versions_of_the_graph_libraries_count_for_algorithms_that_use_them(name, needs):
    packages = module.collect_made_with(create_algorithm(name, {}), "images").keys()
    assert ({"igraph", "leidenalg"} <= packages) == needs


def test_same_images_elsewhere_in_time_are_the_same(made, images):
    """Written again, the file has another time; its digest is found by reading it."""
    _, _, go_on, check = made
    go_on(1)
    write_images(images)
    assert check() == []
    go_on(1)


def test_run_whose_images_were_replaced_is_refused(made, images):
    config, _, go_on, check = made
    folder = go_on(1)
    before = read_manifest(folder)
    write_images(images, seed=1)
    for refuse in (check, partial(go_on, 1), partial(check, accept=True), partial(go_on, 1, accept=True)):
        with pytest.raises(
            DataError, match=f"{config.name} was trained on images other than .*--fresh"
        ) as error:
            refuse()
        assert "\n" not in str(error.value)
    assert read_manifest(folder) == before


def test_finished_run_whose_images_were_replaced_is_refused(made, images):
    _, _, go_on, check = made
    go_on(3)
    write_images(images, seed=1)
    with pytest.raises(DataError, match="images other than"):
        check()


def test_images_that_are_not_here_are_not_checked(made, images):
    _, _, go_on, check = made
    go_on(3)
    images.unlink()
    assert check() == []


def test_run_goes_on_with_another_torch_only_if_that_is_accepted(made, monkeypatch):
    config, _, go_on, check = made
    folder = go_on(1)
    was = load_parts(folder)[0].made_with["torch"]
    other_torch(monkeypatch)
    for refuse in (check, partial(go_on, 1)):
        with pytest.raises(ConfigError, match=f"torch {re.escape(was)}, now 99.1.*--accept-changes.*--fresh"):
            refuse()
    assert check(accept=True) == [f"made with torch {was}, now 99.1: {config.name}"]
    go_on(1, accept=True)
    first, second = load_parts(folder)
    assert (first.from_round, second.from_round) == (1, 2)
    assert (first.made_with["torch"], second.made_with["torch"]) == (was, "99.1")
    log = (folder / "log.txt").read_text()
    assert f"warning: rounds 1 to 1 of {config.name}: made with torch {was}, now 99.1: accepted" in log
    go_on(1)
    assert len(load_parts(folder)) == 2


def test_other_code_is_noticed_when_the_run_is_finished(made, monkeypatch, tmp_path):
    config, storage, _, check = made
    run_one(config, storage=storage, data_dir=tmp_path)
    code = module.digest_run_code
    monkeypatch.setattr(module, "digest_run_code", lambda *classes: code(*classes)[::-1])
    for refuse in (check, partial(run_one, config, storage=storage, data_dir=tmp_path)):
        with pytest.raises(ConfigError, match="made with other code: .*--accept-changes"):
            refuse()
    run_one(config, storage=storage, data_dir=tmp_path, accept_changes=True)


def test_code_of_local_training_is_part_of_a_runs():
    plain, pulled = (
        module.collect_made_with(create_algorithm("ocfl-kmeans", {"local": local}), "")["code"]
        for local in (None, "fedprox")
    )
    assert plain != pulled


def test_run_without_a_note_of_what_it_was_made_with_needs_to_be_accepted(made):
    _, _, go_on, _ = made
    folder = go_on(1)
    list_files(folder, made_with=())
    with pytest.raises(ConfigError, match="made with is not known: --accept-changes"):
        go_on(1)
    go_on(1, accept=True)
    assert [part.from_round for part in load_parts(folder)] == [2]


def test_run_of_another_layout_is_refused(made):
    _, _, go_on, check = made
    folder = go_on(1)
    (folder / MANIFEST).write_text(f'{{"layout": {LAYOUT + 1}, "unheard": "of"}}')
    for refuse in (check, partial(go_on, 1)):
        with pytest.raises(OtherVersion, match="another fedgrid"):
            refuse()


class TwoKinds(InProcessPool):
    """Clients on machines with different processors."""

    def machines(self):
        [here] = super().machines()
        return [here, {**here, "processor": "another one"}]


def test_clients_on_different_processors_are_refused_unless_accepted(made, tmp_path):
    config, storage, _, _ = made
    with pytest.raises(ConfigError, match="another one.*--accept-changes"):
        Session(TwoKinds(), tmp_path).open(config, storage)
    Session(TwoKinds(), tmp_path, accept_changes=True).open(config, storage)
    [part] = load_parts(build_folder_path(storage.root, config))
    assert " and another one" in part.made_with["processor"]
