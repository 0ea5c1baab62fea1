"""Data sets on the Hugging Face hub. Nothing is asked of it: two functions stand for its answers."""

import sys

import datasets
import huggingface_hub
import pytest
from datasets import Dataset
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

from fedgrid.engine.federation.data.names import parse_hub_name, shorten_name
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data import hub, own_images
from fedgrid.engine.runtime.data.datasets import find_dataset, load_dataset

datasets.disable_progress_bars()
OLD, NEW = "0" * 39 + "1", "0" * 39 + "2"
TABLE = {"n": [1.0, 2.0, 3.0, 4.0], "label": [0, 1, 0, 1]}
ITS_NAME = f"hf:some/Letters@{NEW}"


class Hub:
    """Answers in its place; fetches into the folder in which `datasets` looks."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.newest, self.fetched, self.error = folder, NEW, [], None
        self.config = "default"
        self._table = folder / "table.parquet"
        Dataset.from_dict(TABLE).to_parquet(self._table)
        self._builder = datasets.load_dataset_builder
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.snapshot)
        monkeypatch.setattr(datasets, "load_dataset_builder", self.builder)
        self.forget()

    def snapshot(self, repository, *, revision, **_):
        if self.error:
            raise self.error
        return f"{self.folder}/snapshots/{ {None: self.newest, 'first': OLD}[revision] }"

    def builder(self, repository, config, *, revision):
        if self.error:
            raise self.error
        self.fetched.append((repository, config, revision))
        builder = self._builder("parquet", data_files=str(self._table), cache_dir=self.folder / "cache")
        builder.hash = revision
        place = self.folder / "cache" / "some___letters" / self.config / "0.0.0" / revision
        builder._cache_dir = str(place)
        return builder

    def forget(self):
        """Stand for a new process."""
        for remembered in (hub.find_commit, hub._find_folder):
            remembered.cache_clear()
        own_images._places.clear()


@pytest.fixture
def answers(tmp_path, monkeypatch):
    return Hub(tmp_path, monkeypatch)


def test_a_run_names_the_commit_and_its_data_are_fetched_once(answers, tmp_path):
    dataset = find_dataset("hf:some/Letters#label=label", tmp_path)
    assert dataset.name == f"hf:some/Letters#label=label@{NEW}"
    assert (shorten_name(dataset.name), dataset.title) == ("hf_Letters", "some/Letters")
    answers.forget()
    pool, test = load_dataset(dataset.name, tmp_path)
    assert sorted([*pool.images[:, 0], *test.images[:, 0]]) == TABLE["n"]
    assert find_dataset("hf:some/Letters@first", tmp_path).name == f"hf:some/Letters@{OLD}"
    assert answers.fetched == [("some/Letters", None, NEW), ("some/Letters", None, OLD)]


def test_a_run_has_one_id_however_its_commit_is_named(answers, tmp_path):
    ids = {complete_config({"dataset": name}, tmp_path).run_id for name in ("hf:some/Letters", ITS_NAME)}
    answers.newest = OLD
    answers.forget()
    other = complete_config({"dataset": "hf:some/Letters"}, tmp_path).run_id
    assert len(ids) == 1
    assert other not in ids


def test_a_configuration_that_is_not_the_only_one_is_named(answers, tmp_path):
    answers.config = "greek"
    assert find_dataset("hf:some/Letters", tmp_path).name == f"hf:some/Letters#config=greek@{NEW}"


@pytest.mark.parametrize("error", [LocalEntryNotFoundError("offline"), OfflineModeIsEnabled("offline")])
def test_without_a_network_the_cache_is_used(answers, tmp_path, error):
    find_dataset(ITS_NAME, tmp_path)
    answers.error = error
    answers.forget()
    assert len(load_dataset(ITS_NAME, tmp_path)[0]) == 2
    with pytest.raises(DataError, match=f"hub cannot be reached, and the cache has {ITS_NAME};"):
        find_dataset("hf:some/Letters", tmp_path)
    with pytest.raises(
        DataError, match="^hf:none: .* hub cannot be reached, .*does not have it; .*hf:./PATH"
    ):
        find_dataset("hf:none", tmp_path)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError("Dataset scripts are no longer supported, but found a.py"),
         r"^hf:some/Letters@0+2 is a program, and none is run .*: hf:some/Letters@refs/convert/parquet$"),
        (ValueError("BuilderConfig 'x' not found.\nAvailable: ['a']"), r"fetched: .*: \['a'\]; check"),
        (RuntimeError(), "could not be fetched: RuntimeError; check its name, revision and #config=NAME"),
    ],
    ids=["script", "config", "anything"],
)  # fmt: skip
def test_what_the_hub_cannot_give_is_said_in_one_line(answers, tmp_path, error, says):
    answers.error = error
    with pytest.raises(DataError, match=says) as refused:
        find_dataset(ITS_NAME, tmp_path)
    assert "\n" not in str(refused.value)


def test_without_the_package_its_installation_is_named(answers, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r'^hf:some/Letters: .* pip install "fedgrid\[hf\]"$'):
        find_dataset("hf:some/Letters", tmp_path)


def test_what_is_fetched_is_used_without_the_package(answers, tmp_path, monkeypatch):
    name = find_dataset("hf:some/Letters", tmp_path).name
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert len(load_dataset(name, tmp_path)[0]) == 2


@pytest.mark.parametrize(
    "given", ["hf:./a", "hf:/a/b", "hf:~/a", "hf:@0/a", "hf:a@" + "0" * 12, "csv:a", "digits"]
)
def test_a_folder_is_not_on_the_hub(given):
    assert parse_hub_name(given) is None
