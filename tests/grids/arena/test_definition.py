"""What an arena is: its families, where it tunes, its rows, and the one fine-tuning budget."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.arena_card import format_card
from fedgrid.algorithms import built_in
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.arena.definition import ALWAYS, BUDGET, SEEDS, compute_blind_seeds, load_arena
from fedgrid.grids.arena.families import NATURAL, TRAINING, UNEQUAL_SIZES, judged_families, tuning_families
from fedgrid.grids.arena.methods import (
    build_adapt_settings,
    find_own_methods,
    find_tuned_space,
    group_count_settings,
    has_rows,
)
from fedgrid.grids.arena.stored_results import StoredResults, TunedMethod
from fedgrid.grids.arena.tuning import build_searches, compute_search_digest

NOWHERE = Path("unused")
PLUGIN = '''
from fedgrid import AlgorithmEntry, FedOpt, FedOptSettings


class MineSettings(FedOptSettings):
    """Mine."""

    depth: int = 2


ALGORITHMS = [
    AlgorithmEntry("mine", "MINE", "as fedavg", "ours", FedOpt, MineSettings(){search}),
]
'''


@pytest.fixture
def plugin(tmp_path):
    def write(search="", text=PLUGIN):
        path = tmp_path / "mine.py"
        path.write_text(text.replace("{search}", search))
        active.use_plugins([path])
        return path

    yield write
    active.use_plugins()


def arena(*methods, own=(), trials=2, dataset=None, **more):
    return load_arena(None, dataset, methods, own, trials, NOWHERE, **more)


@cache
def of_ifca():
    return arena("fedavg", "ifca")


def search_of(chosen, method, protocol="served"):
    return {(name, way): search for name, way, search in build_searches(chosen)}[method, protocol]


def rows_of(chosen, *tuned):
    return chosen.build_entries({(method, way): {} for method in tuned for way in ("served", "fine-tuned")})


def test_all_families_are_possible_in_the_arena_of_digits_and_a_third_or_less_has_no_groups():
    assert of_ifca().exclusion_notes == ()
    names = [family.name for family in of_ifca().families]
    assert names == [family.name for family in judged_families()]
    assert len(set(names)) == len(names) == 37
    assert sum(not family.num_groups for family in judged_families()) == 10


def test_only_the_arena_of_digits_has_families_of_other_data_sets_and_all_have_their_training():
    of_digits = of_ifca().families
    datasets = {runs[0].dataset for runs in of_digits.values()}
    assert datasets == {*TRAINING} == {"digits", "mnist1d", "synthetic-1-1", "linear-mixture", "dialects"}
    for run in (run for runs in of_digits.values() for run in runs):
        assert run.training.learning_rate == TRAINING[run.dataset]["learning_rate"]
        assert run.training.rounds == 80
    elsewhere = arena("fedavg", "ifca", dataset="mnist1d", changes=["training.rounds=80"])
    assert {runs[0].dataset for runs in elsewhere.families.values()} == {"mnist1d"}
    with pytest.raises(ConfigError, match="dialects"):
        arena("fedavg", "ifca", dataset="mnist1d", only=["dialects"])


def test_methods_of_images_have_no_rows_of_other_examples_and_are_named_once():
    chosen = arena("embeddings", "briggs", only=["iid,mnist1d-iid,mnist1d-rolled-equal"])
    rows = {(row.method, row.family) for row, _ in rows_of(chosen, "embeddings", "briggs")}
    assert {family for method, family in rows if method == "embeddings"} == {"iid"}
    assert len({family for method, family in rows if method == "briggs"}) == 3
    [note] = chosen.exclusion_notes
    assert "embeddings" in note
    assert "mnist1d-rolled-equal, mnist1d-iid: " in note


def test_sizes_and_number_of_groups_are_those_of_the_split():
    for family, runs in of_ifca().families.items():
        for run in runs:
            if family.num_groups:
                assert family.num_groups in (run.split.num_clusters, NATURAL.get(run.dataset)), family.name
            if run.split.sizes is not None:
                assert sum(run.split.sizes) == run.clients
            if family.name.endswith("-unequal"):
                assert run.split.sizes == UNEQUAL_SIZES[family.num_groups]


def test_conditions_change_one_thing_of_equal_groups():
    runs = {family.name: runs[0].model_dump() for family, runs in of_ifca().families.items()}
    for kind in ("disjoint", "rotated"):
        for condition, key in {
            "participation-0.3": "participation",
            "few-images": "split",
            "drift": "drift",
            "sixty-clients": "clients",
            "held-out-clients": "held_out",
        }.items():
            plain, of_condition = (runs[f"{kind}-{name}"] for name in ("equal", condition))
            assert {name for name in of_condition if of_condition[name] != plain.get(name)} == {key}


def test_tuning_shares_no_seed_with_the_arena_and_has_the_same_kinds():
    chosen = of_ifca()
    [tuned_on] = {run.seed for run in chosen.build_tuning_runs("ifca", "served")}
    assert tuned_on not in chosen.judged_seeds
    kinds = {run.split.kind for runs in chosen.families.values() for run in runs}
    assert {run.split.kind for run in chosen.build_tuning_runs("ifca", "served")} < kinds
    assert {family.num_groups for family in tuning_families()} == {0, 3, 4}


def test_every_built_in_method_is_there_but_those_as_published_and_the_one_that_is_bnc_fine_tuned():
    own = {entry.name for entry in built_in.ENTRIES if not entry.name.endswith("-as-published")}
    expected = own - {"fine-tuned"}
    assert set(arena().methods) == expected


@pytest.mark.parametrize("method", ["ifca", "ocfl-kmeans"])
def test_methods_that_are_told_the_number_of_groups_are_told_the_right_one(method):
    chosen = arena(method)
    for row, run in rows_of(chosen, method):
        if row.method == method and row.has_groups:
            section = run.algorithm.settings
            number = section.get("num_clusters") or section["clusterer"]["num_clusters"]
            assert number in (run.split.num_clusters, NATURAL.get(run.dataset))
            assert row.told == "number"


@pytest.mark.parametrize("method", arena().competitors)
def test_what_is_tuned_is_neither_the_servers_rate_nor_what_a_method_is_told(method):
    assert "server_learning_rate" not in find_tuned_space(method, 80)
    assert group_count_settings(method, 3).keys().isdisjoint(find_tuned_space(method, 80))
    assert has_rows(method, "fine-tuned")
    assert list(build_adapt_settings(method, "fine-tuned", 7).values()) == [7]


def test_all_runs_have_the_same_training_and_server():
    chosen = arena("evident-groups,per-fedavg,fedavg")
    runs = [run for _, run in rows_of(chosen, *chosen.competitors)]
    assert len({(run.dataset, run.training) for run in runs}) == len(TRAINING)
    assert {run.algorithm.settings.get("server_learning_rate", 1.0) for run in runs} == {1.0}


def test_served_models_are_not_fine_tuned_whatever_the_default():
    chosen = arena("evident-groups,per-fedavg", budget=9, only=["iid"])
    settings = {
        (row.method, row.protocol): run.algorithm.settings
        for row, run in rows_of(chosen, *chosen.competitors)
    }
    assert settings["evident-groups", "served"]["fine_tune"] == 0
    assert settings["evident-groups", "fine-tuned"]["fine_tune"] == 9
    assert settings["per-fedavg", "served"]["adapt_steps"] == 1
    assert settings["per-fedavg", "fine-tuned"]["adapt_steps"] == 9
    assert arena("ifca").budget == BUDGET


def test_rows_have_what_was_found_under_their_protocol_and_the_entrys_settings_besides():
    chosen = arena("briggs,fedavg", only=["iid"])
    entries = chosen.build_entries({("briggs", "served"): {"threshold": 0.3}, ("briggs", "fine-tuned"): {}})
    settings = {row.protocol: run.algorithm.settings for row, run in entries if row.method == "briggs"}
    assert (settings["served"]["threshold"], settings["served"]["round"]) == (0.3, 6)
    assert settings["fine-tuned"]["threshold"] == 0.4


def test_fedavg_and_the_references_always_take_part():
    chosen = arena("briggs")
    assert set(chosen.methods) == {"briggs", *ALWAYS}
    rows = {(row.method, row.settings, row.protocol) for row, _ in rows_of(chosen, "briggs", "fedavg")}
    assert len(rows) == 4 * 2
    assert {row[1:] for row in rows if row[0] == "oracle"} == {
        ("default", "served"),
        ("default", "fine-tuned"),
    }
    entries = rows_of(arena("briggs", only=["iid"]), "briggs", "fedavg")
    assert len({run.run_id for row, run in entries if row.method == "solo"}) == len(SEEDS.split(".."))


def test_search_is_label_free_begins_with_the_defaults_and_is_known_by_all_but_its_number_of_trials():
    here = arena("evident-groups", only=["iid"])
    search = search_of(here, "evident-groups")
    assert (search.objective, search.defaults_first) == ("accuracy", True)
    assert {run.algorithm.fine_tune for run in search.base} == {0}
    assert {run.split.scored_on for run in search.base} == {"validation"}
    more = search_of(arena("evident-groups", trials=9, only=["iid"]), "evident-groups")
    assert (more.trials, compute_search_digest(more)) == (9, compute_search_digest(search))
    fine_tuned = search_of(here, "evident-groups", "fine-tuned")
    assert {run.algorithm.fine_tune for run in fine_tuned.base} == {BUDGET}
    assert compute_search_digest(fine_tuned) != compute_search_digest(search)
    other = arena("evident-groups", only=["iid"], changes=["training.rounds=60"])
    assert compute_search_digest(search_of(other, "evident-groups")) != compute_search_digest(search)


def test_own_method_is_the_subject_and_tunes_what_its_entry_says(plugin):
    path = plugin(', search={"depth": [1, 2, 3]}')
    chosen = arena("fedavg", own=[path])
    assert (chosen.subjects, chosen.methods) == (("mine",), ("fedavg", "mine", "solo", "oracle"))
    assert set(search_of(chosen, "mine").space) == {"depth"}
    assert search_of(chosen, "fedavg") is None, "it has nothing to tune"
    assert arena().subjects == ("evident-groups",)
    assert arena("briggs").subjects == ("briggs",)


def test_own_method_without_fine_tune_has_no_row_with_fine_tuning(plugin):
    text = PLUGIN.replace("FedOptSettings", "Settings").replace("FedOpt,", "Solo,")
    text = "from fedgrid.algorithms.references import Solo\n" + text.replace("Entry, Solo,", "Entry,")
    chosen = arena("fedavg", own=[plugin(text=text)])
    assert not has_rows("mine", "fine-tuned")
    assert has_rows("mine", "served")
    assert [way for name, way, _ in build_searches(chosen) if name == "mine"] == ["served"]


def test_false_splits_alone_take_ten_seeds_of_families_without_groups_and_one_way_of_serving(plugin):
    chosen = arena(own=[plugin()], null=True)
    rows = chosen.build_entries({("mine", "served"): {}})
    assert len(rows) == 10 * 10
    assert {(row.method, row.protocol, row.has_groups) for row, _ in rows} == {("mine", "served", False)}
    assert arena(null=True).methods == ("evident-groups",)


def test_blind_seeds_change_with_the_file_and_are_nobody_elses(plugin):
    path = plugin()
    chosen = arena("fedavg", own=[path], blind=True)
    assert len(chosen.judged_seeds) == 2
    assert min(chosen.judged_seeds) >= 10**6
    before = compute_blind_seeds([path])
    assert chosen.seeds == before
    path.write_text(path.read_text() + "\n# Another seed, please.\n")
    assert compute_blind_seeds([path]) != before


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"methods": ["nothing"]}, "nothing"),
        ({"methods": ["fedavg,oracle"]}, "fedavg, oracle.*--algorithms"),
        ({"only": ["iid,rotted-equal"]}, "rotted-equal.*rotated-equal"),
        ({"null": True, "only": ["rotated-equal"]}, "without groups.*iid"),
        ({"blind": True}, "--with"),
        ({"blind": True, "seeds": "3", "own": ["mine.py"]}, "--seeds"),
    ],
)
def test_arena_that_cannot_judge_is_refused(more, named, plugin):
    more = dict(more)
    own = [plugin() for _ in more.pop("own", ())]
    with pytest.raises(ConfigError, match=named):
        arena(*more.pop("methods", ["fedavg,briggs"]), own=own, **more)


def test_file_without_a_method_is_refused_by_name(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("FIGURES = []\n")
    with pytest.raises(ConfigError, match=r"--with .*empty.py: .*ALGORITHMS"):
        find_own_methods([path])


@pytest.fixture
def six_classes(tmp_path):
    labels = np.arange(600) % 6
    images = np.zeros((600, 8, 8), np.uint8)
    path = tmp_path / "six.npz"
    np.savez(path, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return f"npz:{path}"


def test_families_that_the_images_do_not_allow_are_left_out_and_named(six_classes):
    few = arena("ifca", dataset=six_classes, changes=["training.rounds=80"])
    assert any(
        note.startswith("family swapped-equal is left out: split.num_clusters = 4")
        for note in few.exclusion_notes
    )
    names = {row.family for row, _ in rows_of(few, "ifca")}
    assert {"rotated-equal", "iid"} < names
    assert "swapped-equal" not in names
    assert "swapped" not in {run.split.kind for run in few.build_tuning_runs("ifca", "served")}


def test_family_that_a_method_refuses_is_left_out_for_it_and_named(plugin):
    refusing = PLUGIN.replace("FedOpt, Mine", "Mine, Mine").replace(
        "ALGORITHMS =",
        "class Mine(FedOpt):\n    def problem(self, conditions):\n"
        "        return 'mine takes all clients' if conditions.{condition} else None\n\n\nALGORITHMS =",
    )
    only = ["iid,disjoint-equal,disjoint-held-out-clients,rotated-held-out-clients"]
    path = plugin(text=refusing.replace("{condition}", "has_held_out"))
    some = arena("fedavg", own=[path], only=only)
    own = {row.family for row, _ in rows_of(some, "mine") if row.method == "mine"}
    assert {family.name for family in some.families} - own == {
        "disjoint-held-out-clients",
        "rotated-held-out-clients",
    }
    assert any("mine takes all clients" in note and "disjoint-held" in note for note in some.exclusion_notes)
    path = plugin(text=refusing.replace("{condition}", "num_clients"))
    none = arena("fedavg", own=[path], only=only)
    with pytest.raises(ConfigError, match="mine takes all clients"):
        none.build_entries({})


def test_card_has_the_tasks_and_changes_with_who_holds_what(tmp_path):
    chosen = load_arena(None, None, ["ifca"], (), 8, tmp_path, only=["iid,rotated-drift"])
    card = json.loads(format_card(chosen))
    assert set(card["families"]) == {"iid", "rotated-drift"}
    assert card["families"]["rotated-drift"]["hidden_groups"] == 4
    digests = [digest for family in card["families"].values() for digest in family["partitions"].values()]
    assert len(set(digests)) == 4
    same = load_arena(None, None, ["briggs"], (), 8, tmp_path, only=["iid,rotated-drift"])
    assert json.loads(format_card(same)) == card


def test_what_loses_kept_rows_says_so():
    stored = StoredResults(
        tuned={("digits", "ifca", "served", 8): TunedMethod(*("digits", "ifca", "served"), 8, 0, 0.5, {}, "")}
    )
    assert stored.explain_losses("digits", {5000}, 8) == ()
    [note] = stored.explain_losses("digits", {5000}, 4)
    assert "kept of 8 trials: with 4" in note
