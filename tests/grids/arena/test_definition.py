"""What an arena is: where it tunes and where it runs, its rows, and the one fine-tuning budget."""

from pathlib import Path

import numpy as np
import pytest

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.arena.definition import BUDGET, FAMILIES, TUNING, load_arena
from fedgrid.grids.arena.methods import adapt_settings, methods_of, plays, space_of
from fedgrid.grids.arena.tuning import digest_of, search_of
from fedgrid.grids.presets.load import load_grid

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
        active.use([path])
        return path

    yield write
    active.use()


def arena(*methods, own=(), trials=2, dataset=None, **more):
    return load_arena(None, dataset, methods, own, trials, NOWHERE, **more)


def runs_of(path):
    return load_grid(str(path), {}, [], NOWHERE).runs


def test_tuning_shares_no_family_and_no_seed_with_the_arena():
    families, tuning = runs_of(FAMILIES), runs_of(TUNING)
    assert {run.split.kind for run in families}.isdisjoint(run.split.kind for run in tuning)
    assert {run.seed for run in families}.isdisjoint(run.seed for run in tuning)
    assert len({run.split.kind for run in tuning}) == 4
    assert len({run.seed for run in tuning}) == 1
    assert min(run.seed for run in families) == 1000


def test_every_method_is_there_but_those_as_published_and_the_one_that_is_bnc_fine_tuned():
    expected = {name for name in ALGORITHMS if not name.endswith("-as-published")} - {"fine-tuned"}
    assert set(arena().methods) == expected


def test_families_have_groups_of_equal_and_unequal_sizes_and_none():
    families = {run.split.kind: run.split for run in runs_of(FAMILIES)}
    assert families["flipped"].sizes == (10, 5, 3, 2)
    assert families["rotated"].sizes is None
    assert families["iid"].num_clusters == 1


@pytest.mark.parametrize("path", [FAMILIES, TUNING])
def test_methods_that_are_told_the_number_of_groups_are_told_the_right_one(path):
    for run in runs_of(path):
        told = ALGORITHMS[run.algorithm["name"]].told == "number"
        if told and run.split.kind not in ("iid", "label-skew", "dirichlet"):
            asked = run.algorithm.get("clusterer", run.algorithm)
            assert asked["num_clusters"] == run.split.num_clusters


@pytest.mark.parametrize("method", arena().competitors)
def test_every_competitor_has_something_to_tune_and_one_budget_of_fine_tuning(method):
    assert space_of(method, 15)
    assert plays(method, "fine-tuned")
    assert list(adapt_settings(method, "fine-tuned", 7).values()) == [7]


def test_served_models_are_not_fine_tuned_whatever_the_default():
    chosen = arena("evident-groups,per-fedavg", "fedavg")
    assert chosen.section("evident-groups", {}, "default", "served")["fine_tune"] == 0
    assert chosen.section("evident-groups", {}, "default", "fine-tuned")["fine_tune"] == BUDGET
    assert "adapt_steps" not in chosen.section("per-fedavg", {}, "default", "served")
    assert chosen.section("per-fedavg", {}, "default", "fine-tuned")["adapt_steps"] == BUDGET
    assert arena("fedavg", "ifca", budget=9).section("ifca", {}, "default", "fine-tuned")["fine_tune"] == 9


def test_rows_have_what_was_found_and_what_the_file_says_besides():
    section = arena("briggs,fedavg").section("briggs", {"threshold": 0.3}, "tuned", "served")
    assert (section["threshold"], section["round"]) == (0.3, 6)
    section = arena("briggs,fedavg").section("briggs", {"threshold": 0.3}, "default", "served")
    assert section["threshold"] == 0.4


def test_every_row_is_there_twice_by_settings_and_by_protocol_and_references_by_protocol():
    chosen = arena("fedavg,briggs,solo", filters=["split=iid,split=rotated"], seeds="1000")
    entries = chosen.entries({"fedavg": {}, "briggs": {"threshold": 0.3}})
    rows = {(row.method, row.settings, row.protocol) for row, _ in entries}
    assert len(rows) == 2 * 4 + 2
    assert len(entries) == len(rows) * 2
    solo = {run.run_id for row, run in entries if row.method == "solo"}
    assert len(solo) == 2
    assert {row.has_groups for row, _ in entries if row.family == "iid"} == {False}


def test_search_is_label_free_of_served_models_and_known_by_all_but_its_number_of_trials():
    search = search_of(arena("evident-groups,fedavg"), "evident-groups")
    assert search.objective == "accuracy"
    assert {run.algorithm["fine_tune"] for run in search.base} == {0}
    assert {run.split.scored_on for run in search.base} == {"validation"}
    assert {run.seed for run in search.base} == {900}
    more = search_of(arena("evident-groups,fedavg", trials=9), "evident-groups")
    assert (more.trials, digest_of(more)) == (9, digest_of(search))
    other = search_of(arena("evident-groups,fedavg", changes=["training.rounds=9"]), "evident-groups")
    assert digest_of(other) != digest_of(search)


def test_own_method_is_the_subject_and_tunes_what_its_entry_says(plugin):
    path = plugin(', search={"depth": [1, 2, 3]}')
    chosen = arena("fedavg", own=[path])
    assert (chosen.subjects, chosen.methods) == (("mine",), ("fedavg", "mine"))
    assert set(search_of(chosen, "mine").space) == {"depth", "server_learning_rate"}


def test_without_an_own_method_the_subject_is_fedgrids():
    assert arena().subjects == ("evident-groups",)
    assert arena("fedavg,briggs").subjects == ("fedavg",)


def test_own_method_without_fine_tune_has_no_row_with_fine_tuning(plugin):
    text = PLUGIN.replace("FedOptSettings", "Settings").replace("FedOpt,", "Solo,")
    text = "from fedgrid.algorithms.references import Solo\n" + text.replace("Entry, Solo,", "Entry,")
    chosen = arena("fedavg", own=[plugin(text=text)])
    assert not plays("mine", "fine-tuned")
    assert plays("mine", "served")
    assert chosen.subjects == ("mine",)
    assert space_of("mine", 15) == {}
    assert search_of(chosen, "mine") is None


@pytest.mark.parametrize(
    ("methods", "named"), [(["nothing"], "nothing"), (["fedavg,oracle"], "fedavg, oracle.*--algorithms")]
)
def test_arena_that_cannot_judge_is_refused(methods, named):
    with pytest.raises(ConfigError, match=named):
        arena(*methods)


def test_file_without_a_method_is_refused_by_name(tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("FIGURES = []\n")
    with pytest.raises(ConfigError, match=r"--with .*empty.py: .*ALGORITHMS"):
        methods_of([path])


def test_settings_of_another_data_set_are_of_its_own_arena_without_the_changes():
    here = arena("fedavg", "louvain")
    elsewhere = arena("fedavg", "louvain", dataset="mnist", tuned_on="digits", changes=["training.rounds=2"])
    assert elsewhere.name == "arena-rows-mnist"
    assert digest_of(search_of(elsewhere.tuning, "louvain")) == digest_of(search_of(here, "louvain"))
    assert search_of(elsewhere.tuning, "louvain").name == search_of(here, "louvain").name
    assert {run.dataset for _, run in elsewhere.entries({"louvain": {}})} == {"mnist"}


@pytest.fixture
def six_classes(tmp_path):
    labels = np.arange(600) % 6
    images = np.zeros((600, 8, 8), np.uint8)
    path = tmp_path / "six.npz"
    np.savez(path, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return f"npz:{path}"


def test_families_that_the_images_do_not_allow_are_left_out_and_named(six_classes):
    few = arena("fedavg", "ifca", dataset=six_classes, changes=["clients=12"])
    [unequal, swapped] = few.left_out
    assert unequal.startswith("family flipped is left out: split.sizes = [10, 5, 3, 2] has 20 clients")
    assert swapped.startswith("family swapped is left out: split.num_clusters = 4")
    kinds = {run.split.kind for _, run in few.entries({"ifca": {}})}
    assert {"rotated", "iid"} < kinds
    assert "flipped" not in kinds
    assert {run.split.kind for run in search_of(few, "ifca").base} == {"majority", "dimmed", "noisy"}
    assert "kind: flipped" not in few.text({})


def test_images_that_allow_no_family_are_refused(six_classes):
    with pytest.raises(ConfigError, match=r"clients"):
        _ = arena("fedavg", "ifca", dataset=six_classes, changes=["clients=0"]).families
