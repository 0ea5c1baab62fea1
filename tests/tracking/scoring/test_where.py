"""`study.where` as somebody types it, over the runs of a grid."""

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.runs import describe_configs
from fedgrid.tracking.scoring.selection import read_conditions
from fedgrid.tracking.scoring.study import Study
from tests.helpers.small_grid import NOWHERE

GRID = """
dataset: digits
split: [nonoverlapping-balanced, overlapping-balanced]
clients: [4, 10]
seed: [0, 1]
algorithm: [fedavg, ocfl-kmeans, briggs]
axes: {training.local_epochs: [1, 2]}
training: {rounds: 30}
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("where")
    (folder / "mine.yaml").write_text(GRID)
    runs = describe_configs(
        load_grid(str(folder / "mine.yaml"), {}, [], NOWHERE).runs, Storage(folder / "runs")
    )
    return Study("mine", runs)


@pytest.mark.parametrize(
    ("wanted", "share"),
    [
        ({"algorithm": "ocfl-kmeans"}, 3),
        ({"algorithm": "OCFL-KM"}, 3),
        ({"clients": "10"}, 2),
        ({"clients": 10}, 2),
        ({"seed": 1}, 2),
        ({"seed": [0, 1]}, 1),
        ({"split": "overlapping-balanced"}, 2),
        ({"split": "overlapping balanced"}, 2),
        ({"dataset": "digits"}, 1),
        ({"local_epochs": 2}, 2),
        ({"training.local_epochs": 2.0}, 2),
        ({"rounds": 30}, 1),
        ({"algorithm": "fedavg", "clients": 4, "seed": 0}, 12),
    ],
)
def test_ids_titles_numbers_as_text_and_every_axis(study, wanted, share):
    found = study.where(**wanted)
    assert len(found.runs) * share == len(study.runs) == 48


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"split": "overlapping"}, "no run has split='overlapping'; did you mean 'overlapping-balanced'"),
        ({"algorithm": "ocfl-kmean"}, "did you mean 'ocfl-kmeans'"),
        ({"algoritm": "fedavg"}, "'algoritm'; did you mean 'algorithm'"),
        ({"local_epoch": 1}, "'local_epoch'; did you mean 'training.local_epochs'"),
        ({"name": "x" * 300}, "no run has name="),
        ({"seed": [0, 7]}, "no run has seed=7"),
    ],
)
def test_what_is_no_name_or_value_of_the_study_is_refused(study, wanted, says):
    with pytest.raises(ValueError, match=says) as caught:
        study.where(**wanted)
    assert "\n" not in str(caught.value)


def test_values_are_listed_as_ids_and_titles_help_to_find_the_nearest(study):
    with pytest.raises(ValueError, match="did you mean 'OCFL-KM'") as caught:
        study.where(algorithm="OCFL-KMM")
    listed = str(caught.value).partition("there are ")[2].split(", ")
    assert "ocfl-kmeans" in listed
    assert "OCFL-KM" not in listed


def test_commas_in_parentheses_are_part_of_a_value():
    [condition] = read_conditions("algorithm=fedavg (aggregate krum (keep 0.8, share 0.2), round 3),sattler")
    assert condition.values == ("fedavg (aggregate krum (keep 0.8, share 0.2), round 3)", "sattler")


def test_choice_is_selected_by_its_name_alone_or_with_its_settings():
    values = [{"name": "krum", "keep": keep} for keep in (0.5, 0.8)]

    def select(text):
        [condition] = read_conditions(f"algorithm.aggregate{text}")
        return [condition.matches_values([value]) for value in values]

    assert select("=krum") == [True, True]
    assert select("=krum (keep 0.8)") == [False, True]
    assert select("!=krum") == [False, False]
