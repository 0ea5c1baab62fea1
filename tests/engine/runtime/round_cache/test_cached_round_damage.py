"""A round cache with missing or damaged files costs time and changes no number."""

from pathlib import Path
from random import Random
from shutil import copyfile, copytree, rmtree

import pytest

from fedgrid.engine.runtime.round_cache.cached_round import CachedRound
from fedgrid.engine.runtime.round_cache.files import FOLDER, RoundCache
from tests.helpers.small_runs import (
    CLIENTS,
    ArithmeticPool,
    UnusedPool,
    config,
    count_trained,
    files,
    find_differing,
    locks,
    play,
    warnings,
)

KEPT = {"training": {"keep_optimizer_state": True}}
"""With a memory for each client and round in the cache."""
ALGORITHMS = ("fedavg", "ocfl-kmeans", "ocfl-hdbscan")


def vanish(file, others):
    file.unlink()


def empty(file, others):
    file.write_bytes(b"")


def cut(file, others):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file, others):
    """One bit amid the numbers, which are the last part."""
    data = bytearray(file.read_bytes())
    data[-2] ^= 4
    file.write_bytes(data)


def flip_in_the_header(file, others):
    data = bytearray(file.read_bytes())
    data[len(data) // 100 + 8] ^= 1
    file.write_bytes(data)


def become_another(file, others):
    """The entry of another name, whole as it is."""
    copyfile(others[0], file)


def become_text(file, others):
    file.write_text("hello")


DAMAGES = (empty, cut, flip, become_another, flip_in_the_header, become_text)


def of_the_same_kind(file):
    """Return the other entries of the same kind: their arrays have the same names."""
    kind = file.stem.split("-")[2]
    return [other for other in file.parent.glob(f"*-{kind}*.safetensors") if other != file]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A storage in which a run has filled the cache."""
    folder = tmp_path_factory.mktemp("first")
    play(config(**KEPT), folder, ArithmeticPool())
    return folder


@pytest.fixture
def root(first, tmp_path):
    """A copy of it."""
    return copytree(first, tmp_path / "root")


class TestOneFile:
    @pytest.mark.parametrize(
        ("name", "damage"), [("reports", flip), ("mean", become_another), ("tests", cut), ("memory", empty)]
    )
    def test_damaged_entry_is_named_in_a_warning_and_computed_again(self, root, name, damage):
        file = files(root, f"000002-*-{name}*")[0]
        whole = file.read_bytes()
        damage(file, of_the_same_kind(file))
        assert file.read_bytes() != whole
        run = config("sattler", **KEPT)
        play(run, root, ArithmeticPool())
        (warning,) = warnings(run, root)
        assert warning.startswith(f"warning: {file} is damaged")
        assert find_differing(run, root, ArithmeticPool) == []
        play(config("briggs", **KEPT), root, UnusedPool())
        assert warnings(config("briggs", **KEPT), root) == []

    @pytest.mark.parametrize(
        ("name", "again"),
        [("reports", CLIENTS), ("products", CLIENTS), ("mean", CLIENTS), ("tests", 0), ("memory", 1)],
    )
    def test_missing_entry_costs_only_what_it_takes_to_compute_it(self, root, name, again):
        """A memory costs the training of its client, a test costs no training."""
        files(root, f"000002-*-{name}*")[0].unlink()
        run = config("sattler", **KEPT)
        play(run, root, ArithmeticPool())
        assert count_trained(run, root) == [0, again, 0]
        assert warnings(run, root) == []
        assert find_differing(run, root, ArithmeticPool) == []


def harm(root, random, share=0.5):
    """Damage or delete a share of the cache's files."""
    every = files(root)
    for file in random.sample(every, round(share * len(every))):
        others = [other for other in every if other.exists()]
        damage = random.choice((vanish, *DAMAGES))
        if file.exists() and file.stat().st_size > 100:
            damage(file, [random.choice(others)] if others[0] == file else others)


def test_damage_before_each_lookup_changes_no_number(tmp_path, monkeypatch):
    """A little each time, in the midst of a round's work."""
    random, read = Random(1), RoundCache.read

    def harmed(files, name):
        if random.random() < 0.5:
            harm(tmp_path, random, 0.1)
        return read(files, name)

    monkeypatch.setattr(RoundCache, "read", harmed)
    told = []
    for algorithm in ALGORITHMS * 2:
        rmtree(play(config(algorithm, **KEPT), tmp_path, ArithmeticPool(), until=1))
        play(config(algorithm, **KEPT), tmp_path, ArithmeticPool())
        assert find_differing(config(algorithm, **KEPT), tmp_path, ArithmeticPool) == []
        told += warnings(config(algorithm, **KEPT), tmp_path)
    assert told
    for line in told:
        file, _, _ = line.removeprefix("warning: ").partition(" is damaged")
        assert Path(file).parent.parent == tmp_path / FOLDER


def test_deleted_cache_before_each_lookup_changes_no_number(tmp_path, monkeypatch):
    """With all claims: the whole folder."""
    cached = CachedRound.cached

    def swept(work, wanted, compute):
        rmtree(tmp_path / FOLDER, ignore_errors=True)
        return cached(work, wanted, compute)

    monkeypatch.setattr(CachedRound, "cached", swept)
    for algorithm in ALGORITHMS:
        play(config(algorithm, **KEPT), tmp_path, ArithmeticPool())
        assert find_differing(config(algorithm, **KEPT), tmp_path, ArithmeticPool) == []
        assert warnings(config(algorithm, **KEPT), tmp_path) == []
    assert locks(tmp_path) == []
