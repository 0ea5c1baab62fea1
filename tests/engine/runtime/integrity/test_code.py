"""The border: what is part of a run's identity, and that nothing else is."""

import sys
from functools import cache
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from fedgrid.algorithms.averaging.fedopt import FedOpt
from fedgrid.algorithms.averaging.fedprox import FedProx, ProximalRule
from fedgrid.algorithms.clustered.while_training.ocfl import Ocfl
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.engine.federation.errors import PLUGIN_MODULE, ConfigError
from fedgrid.engine.runtime.integrity import code, made_with
from fedgrid.engine.runtime.integrity.code import ROOTS, SOURCES, SourceModule, Sources
from fedgrid.engine.runtime.integrity.made_with import digest_run_code, extend_parts
from fedgrid.engine.runtime.round_cache import key
from fedgrid.engine.runtime.round_cache.key import compute_digest
from fedgrid.manifest import ProvenancePart

HOUSE = Path(code.__file__).parents[3]
FIRST_FLOOR = "engine/federation"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Return a copy of the package."""
    return copytree(HOUSE, tmp_path_factory.mktemp("copy") / "fedgrid", ignore=ignore_patterns("__pycache__"))


@pytest.fixture
def edited(house):
    """Return a function that appends text to files of the copy, and undoes it at the end."""
    before: dict[Path, str] = {}

    def append(path, text):
        before[path] = path.read_text()
        path.write_text(before[path] + text)

    yield append
    for path, content in before.items():
        path.write_text(content)


@cache
def parsed(path, text):
    """Return the module of a file with this text."""
    return SourceModule(path)


@pytest.fixture
def identity(house, monkeypatch):
    """Return a function for the digests of a run and of its rounds, by the copy's code as it is then."""
    monkeypatch.setattr(code, "SourceModule", lambda path: parsed(path, path.read_text()))

    def of_copy():
        monkeypatch.setattr(made_with, "SOURCES", sources := Sources(house))
        monkeypatch.setattr(key, "SOURCES", sources)
        for cached in (digest_run_code, key._list_numerics, key._digest_code):
            cached.cache_clear()
        return digest_run_code(Ocfl), key._list_numerics(), compute_digest(ProximalRule(mu=0.1))

    yield of_copy
    for cached in (digest_run_code, key._list_numerics, key._digest_code):
        cached.cache_clear()


def modules_of(*classes):
    return SOURCES.find_closure({*ROOTS, *made_with.find_modules(*classes)})


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_run_depends_on_the_first_floor_and_on_algorithms_alone(name):
    algorithm = create_algorithm(name)
    parts = [type(part) for part in vars(algorithm.settings).values()]
    elsewhere = {
        module
        for module in modules_of(type(algorithm), *parts)
        if not module.startswith(("fedgrid.engine.federation.", "fedgrid.algorithms.", "fedgrid.rivals."))
    }
    assert elsewhere == set()


def test_registries_do_not_join_all_algorithms():
    averaging = modules_of(FedOpt)
    assert "fedgrid.algorithms.registry" not in averaging
    assert not {module for module in averaging if ".clustered." in module}
    assert modules_of(Ocfl) - averaging == {
        "fedgrid.algorithms.clustered.while_training.ocfl",
        "fedgrid.algorithms.clustering.clusterers",
        "fedgrid.algorithms.clustering.pooled_cosines",
        "fedgrid.algorithms.clustering.splits",
    }


def test_what_is_imported_when_it_is_used_counts():
    assert "fedgrid.engine.federation.models.networks" in modules_of(FedOpt)


def test_code_is_what_is_left_without_comments_texts_and_blank_lines(tmp_path):
    source = (
        '"""Doc."""\n\nONE = 1  # why\n"""Its\n\nmeaning."""\n\n\ndef f():\n    """Do."""\n    return "#"\n'
    )
    (tmp_path / "one.py").write_text(source)
    assert SourceModule(tmp_path / "one.py").code == 'ONE = 1\ndef f():\n    return "#"'


def test_what_fedgrid_exports_counts_as_imported_from_its_module(tmp_path):
    (tmp_path / "__init__.py").write_text('_NAMES = {"one": "One", "folder.two": "Two TWO"}\n')
    (tmp_path / "folder").mkdir()
    for name in ("one.py", "folder/two.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "rival.py").write_text("from fedgrid import One\ndef f():\n    from fedgrid import TWO\n")
    assert Sources(tmp_path).find_closure(["fedgrid.rival"]) == {
        "fedgrid.rival",
        "fedgrid.one",
        "fedgrid.folder.two",
    }


def test_imports_for_types_do_not_count_and_those_inside_functions_do(tmp_path):
    (tmp_path / "one.py").write_text(
        "if TYPE_CHECKING:\n    from a import A\nelse:\n    from b import B\ndef f():\n    import c\n"
    )
    assert set(SourceModule(tmp_path / "one.py").imported_names) == {"b.B", "c"}


def test_comments_on_the_first_floor_and_any_change_elsewhere_change_nothing(house, edited, identity):
    before = identity()
    for path in house.rglob("*.py"):
        within = path.relative_to(house).as_posix()
        of_numbers = within.startswith((FIRST_FLOOR, "algorithms"))
        edited(path, "\n# another comment\n" if of_numbers else "\nANOTHER_CONSTANT = 1\n")
    assert identity() == before
    now = {"code": before[0], "images": "i"}
    parts = (ProvenancePart(1, now),)
    assert extend_parts("a run", parts, {**now, "code": identity()[0]}, 1, accept=False) == (parts, [])


@pytest.mark.parametrize(
    "file",
    ["training/local.py", "partition/published_shares.csv", "seeds.py"],
)
def test_a_constant_of_the_first_floor_changes_digest_and_keys(file, house, edited, identity):
    code_before, numerics, _ = identity()
    edited(house / FIRST_FLOOR / file, "\nANOTHER_CONSTANT = 1\n")
    code_now, numerics_now, _ = identity()
    assert code_before != code_now
    assert numerics != numerics_now
    with pytest.raises(ConfigError, match="made with other code"):
        extend_parts(
            "a run",
            (ProvenancePart(1, {"code": code_before, "images": "i"}),),
            {"code": code_now, "images": "i"},
            1,
            accept=False,
        )


def test_an_algorithm_of_its_own_changes_the_run_and_not_the_rounds_that_others_share(
    house, edited, identity
):
    code_before, *keys = identity()
    edited(house / "algorithms/clustered/while_training/ocfl.py", "\nANOTHER_CONSTANT = 1\n")
    code_now, *keys_now = identity()
    assert code_before != code_now
    assert keys == keys_now


def test_a_helper_that_one_rival_imports_changes_its_digest_alone(house, edited):
    def digests():
        sources = Sources(house)
        return [sources.digest_modules([f"fedgrid.rivals.{name}"]) for name in ("fedem", "ditto")]

    edited(house / "rivals/fedem.py", "\nfrom fedgrid import split_by_labels\n")
    fedem, ditto = digests()
    edited(house / "algorithms/clustering/splits.py", "\nANOTHER_CONSTANT = 1\n")
    fedem_now, ditto_now = digests()
    assert fedem != fedem_now
    assert ditto == ditto_now


def test_a_local_rule_changes_the_rounds_in_which_it_trains(house, edited, identity):
    _, numerics, rule = identity()
    edited(house / "algorithms/averaging/fedprox.py", "\nANOTHER_CONSTANT = 1\n")
    _, numerics_now, rule_now = identity()
    assert numerics == numerics_now
    assert rule != rule_now


def test_a_plugin_brings_the_modules_of_ours_that_it_takes_something_of(monkeypatch):
    name = f"{PLUGIN_MODULE}0123456789abcdef"
    module = type(sys)(name)
    module.__dict__.update(helper=FedProx)
    monkeypatch.setitem(sys.modules, name, module)
    mine = type("Mine", (FedOpt,), {"__module__": name})
    assert "fedgrid.algorithms.averaging.fedprox" in modules_of(mine)
    assert "fedgrid.algorithms.averaging.fedprox" not in modules_of(FedOpt)
