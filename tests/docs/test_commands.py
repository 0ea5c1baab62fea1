"""The commands of README and how-to pages, run: what trains as `--dry-run`, what reads a grid on a small one.

docs/day.md has test_day.py. Commands that differ in names alone are run once.
"""

import re
import runpy
import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs.reference.shelves import navigation, shelf_paths
from fedgrid.engine.runtime.plugins import active
from tests.docs.test_pages import DOCS, ROOT, WRITTEN, commands
from tests.helpers.command_line import fedgrid
from tests.helpers.undrawn import skip_drawing

pytestmark = pytest.mark.slow

ELSEWHERE = {
    "analyse centralised epsilons": "grids/epsilons/test_analysis.py",
    "arena --check": "grids/arena/test_command.py",
    "bundle make": "grids/bundles/test_write.py",
    "table mine --against": "grids/bundles/test_imports.py",
    "data femnist --from": "engine/runtime/data/test_femnist.py",
    "data hf:flwrlabs": "engine/runtime/data/test_arrow_folders.py",
    "doctor": "grids/doctor/test_doctor.py",
    "import": "grids/archive/test_importing.py",
    "bundle check": "grids/bundles/test_check.py",
    "run paper --failed": "grids/cli/test_errors.py",
    "run --dataset femnist": "engine/runtime/data/test_femnist.py",
    "run mine.yaml --imported": "grids/bundles/test_imports.py",
    "run --dataset hf:flwrlabs": "engine/runtime/data/test_arrow_folders.py",
    "run paper --tuned": "grids/search/test_tuned_settings.py",
    "stop": "grids/display/test_status.py",
    "submit": "grids/submit/test_job.py",
    "ui": "grids/following/test_follow.py",
}
"""How a command begins that needs a server, a running grid or other files -> the test that runs it."""
PLANNED = ("run", "search", "arena", "analyse")
"""Commands that take `--dry-run`."""
OF_GRIDS = ("status", "report", "table", "show", "cite")
SMALL = "quickstart"
SMALLER = {
    **{"round=19": "round=1", "images=24": "images=8", "0..4": "0,1", "seeds+=5..9": "seeds+=5"},
    "folder:PATH": "npz:pens.npz",
}
"""What stands in for a word of a plan that would take seconds, or needs files."""


def how_to_pages() -> list[Path]:
    """Return the README and the pages of the shelf."""
    [shelf] = [entry for entry in navigation() if "How-to" in entry]
    return [ROOT / "README.md", *(DOCS / page for page in shelf_paths(shelf))]


def words_of(line: str) -> list[str]:
    """Return a command's arguments, without what a shell does with its output."""
    return shlex.split(re.split(r" [|>] |\s#", line)[0])[1:]


def adapted(words: list[str]) -> tuple[str, ...]:
    """Return the command as it is run here: planned, or of the small grid."""
    name = words[0]
    if name in PLANNED:
        words = [*words, *(["--dry-run"] if "--dry-run" not in words else [])]
        words = [SMALLER.get(word, word) for word in words]
    if name == "arena":  # All thirty families take six seconds to plan.
        words += ["--families", "iid"]
        if "--dataset" in words:
            words += ["--trials", "2"]
    if name in (*OF_GRIDS, "analyse"):
        grid = {"205cd4": "RUN", "RUN": "RUN", "ocfl-archive": "other"}
        words = [name, grid.get(words[1], SMALL), *(grid.get(word, word) for word in words[2:])]
        words = [word.replace("dataset=mnist", "dataset=digits") for word in words]
    if name == "delete":
        words = [name, "spare", "--yes", *words[2:]]
    return tuple(words)


COMMANDS = dict.fromkeys(
    adapted(words)
    for page in how_to_pages()
    for words in map(words_of, commands(WRITTEN[page]))
    if not " ".join(words).startswith(tuple(ELSEWHERE))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a reader's folder: the files that pages name, and grids of two rounds."""
    folder = tmp_path_factory.mktemp("reader")
    for file in (*(DOCS / "examples").iterdir(), DOCS / "own_report.py", DOCS / "spread.py"):
        if file.is_file():
            shutil.copy(file, folder)
    shutil.copy(DOCS / "examples" / "my_algorithm.py", folder / "mine.py")
    for page, name in FILES.items():
        blocks = re.findall(r"```yaml\n(.*?)```", WRITTEN[DOCS / page], re.DOTALL)
        (folder / name).write_text(next(text for text in blocks if name in text))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for file in ("pens.py", "patients.py", "orders.py"):
            runpy.run_path(file)
        assert fedgrid("data", "digits", "--export", "partition.csv").code == 0
        images("cats", ("ant", "bee", "cat", "dog"))
        images("pacs", ("dog", "elephant"), groups=("photo", "sketch"))
        for name, seeds in ((SMALL, "0..2"), ("other", "0"), ("spare", "0")):
            small = (
                "--seeds",
                seeds,
                "--where",
                "algorithm=fedavg,algorithm=ocfl-hdbscan",
                "training.rounds=2",
            )
            assert fedgrid("run", SMALL, *small, "--in-process", "--name", name).code == 0
        assert fedgrid("init", "my-study").code == 0
        shutil.copytree("my-study", ".", dirs_exist_ok=True)
        shutil.rmtree("my-study")
    return folder


FILES = {
    "presets.md": "two-axes.yaml",
    "searches.md": "my-search.yaml",
}
"""Page -> the name of a file that it shows."""


def images(folder: str, classes: tuple[str, ...], groups: tuple[str, ...] = ("",)) -> None:
    """Write a folder of grey images of noise."""
    random = np.random.default_rng(0)
    for part, count in (("train", 120), ("test", 20)):
        for group in groups:
            for name in classes:
                to = Path(folder, part, group, name)
                to.mkdir(parents=True)
                for number in range(count):
                    Image.fromarray(random.integers(0, 255, (64, 64), np.uint8)).save(to / f"{number}.png")


@pytest.mark.parametrize(("command", "path"), ELSEWHERE.items())
def test_test_of_another_command_has_all_of_its_words(command: str, path: str) -> None:
    text = (ROOT / "tests" / path).read_text()
    assert [word for word in re.findall("[a-z]+", command) if not re.search(rf"\b{word}\b", text)] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_of_a_how_to_runs(
    words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    active.use_plugins()  # As in a new process.
    [run, *_] = sorted((folder / "runs").glob("digits-15-*-fedavg-s0-*"))
    # One report is drawn; test_day.py draws another.
    with nullcontext() if "own_report.py" in words else skip_drawing():
        result = fedgrid(*(run.name.rpartition("-")[2] if word == "RUN" else word for word in words))
    assert result.code == 0, result.err
    active.use_plugins()
