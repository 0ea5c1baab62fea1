"""Every example in the documents runs; a block with `file=` is that file."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa
import pytest

import fedgrid
from fedgrid.engine.runtime.plugins.run_algorithm import list_own_columns
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.search.definition import load_search
from fedgrid.tracking.scoring.run import Run
from tests.helpers.studies import make_finished, make_study

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```(\w+)(?: file=(\S+))?\n(.*?)```", re.DOTALL)
BLOCKS = [(path, *found) for path in DOCUMENTS for found in BLOCK.findall(path.read_text())]
NOWHERE = Path("no-data-needed")


@pytest.mark.parametrize(
    ("path", "file", "text"), [(path, file, text) for path, _, file, text in BLOCKS if file]
)
def test_block_is_its_file(path: Path, file: str, text: str) -> None:
    assert text == (path.parent / file).read_text()


def yaml_of(document: str, place: int = 0) -> str:
    return [text for path, kind, _, text in BLOCKS if path.name == document and kind == "yaml"][place]


def test_grids_with_noise_load(tmp_path: Path) -> None:
    file, counts = tmp_path / "private.yaml", []
    for text in [text for path, kind, _, text in BLOCKS if path.name == "privacy.md" and kind == "yaml"]:
        file.write_text(text)
        runs = load_grid(str(file), {}, [], NOWHERE).runs
        assert {list_own_columns(run) >= {"epsilon"} for run in runs} == {True}
        counts.append(len(runs))
    assert counts == [7, 1]


@pytest.mark.parametrize(
    ("page", "place", "count"),
    [
        ("local-training.md", 0, 2),
        ("clients-come-and-go.md", 0, 7),
        ("faults.md", 0, 7),
        ("faults.md", 1, 7),
        ("robust.md", 0, 2),
    ],
)
def test_grid_of_a_how_to_loads(page: str, place: int, count: int, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml_of(page, place))
    assert len(load_grid(str(file), {}, [], NOWHERE).runs) == count


def test_search_of_the_docs_loads(tmp_path: Path) -> None:
    file = tmp_path / "my-search.yaml"
    file.write_text(yaml_of("searches.md"))
    search = load_search(str(file), {}, [], NOWHERE, own={})
    keys = ["epsilon_1", "cooldown", "linkage", "training.learning_rate"]
    assert (search.name, list(search.space)) == ("my-search", keys)
    file.write_text(yaml_of("searches.md", 1))
    assert load_search(str(file), {}, [], NOWHERE, own={}).early_stop.at == (11, 13, 15)


def test_notebook_example_of_a_how_to_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    curves = {"ari": (0.0, 1.0), "published_gf1": (0.1, 0.2), "published_pf1": (0.5, 0.6)}
    monkeypatch.setattr(fedgrid, "load", lambda grid, storage: make_study([make_finished(curves=curves)]))
    clients = pa.table({"round": [1, 2], "client": [3, 3], "personalised_accuracy": [0.1, 0.2]})
    monkeypatch.setattr(Run, "table", lambda run, name: clients)
    python = [
        (file, text) for path, kind, file, text in BLOCKS if (path.name, kind) == ("own-report.md", "python")
    ]
    [code] = [text for file, text in python if not file]
    exec(code, {})
    plt.close("all")
    assert "\\begin{table" in capsys.readouterr().out


@pytest.mark.slow
def test_first_grid_of_the_readme_runs_and_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """As it stands, but for one seed of two short rounds, without Ray."""
    run_grid = fedgrid.run_grid

    def run_small(grid, *, name):
        assert load_grid(grid, {}, [], NOWHERE, name=name).runs
        training = {"rounds": 2, "local_epochs": 1}
        return run_grid({**grid, "seeds": "0", "training": training}, name=name, in_process=True)

    monkeypatch.setattr(fedgrid, "run_grid", run_small)
    monkeypatch.chdir(tmp_path)
    [code] = [text for path, kind, _, text in BLOCKS if (path.name, kind) == ("README.md", "python")]
    exec(code, {})
    plt.close("all")
    assert "personalised_accuracy" in capsys.readouterr().out
    assert (tmp_path / "accuracy.png").stat().st_size > 10_000


def test_example_of_the_explanations_runs(capsys) -> None:
    runpy.run_path(str(ROOT / "docs" / "explain_images.py"))
    assert "insertion 0.1" in capsys.readouterr().out


def test_no_example_is_left_out() -> None:
    """Others: test_own_algorithm.py, test_own_split.py, test_commands.py, grids/presets/test_docs.py and
    e2e/test_day.py."""
    own = {"own-algorithm.md", "own-data.md", "own-model.md", "own-split.md", "own-table.md"}
    elsewhere = {"data.md", "day.md", "hugging-face.md", "presets.md", "splits.md"} | own
    here = {
        ("clients-come-and-go.md", "yaml"),
        ("faults.md", "yaml"),
        ("local-training.md", "yaml"),
        ("plugins.md", "toml"),
        ("privacy.md", "yaml"),
        ("robust.md", "yaml"),
        ("searches.md", "yaml"),
        ("own-report.md", "python"),
        ("README.md", "python"),
    }
    rest = {(path.name, kind) for path, kind, file, _ in BLOCKS if not file and path.name not in elsewhere}
    assert rest == here
