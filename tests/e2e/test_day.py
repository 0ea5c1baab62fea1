"""docs/day.md, the tutorial: its commands, typed again in this process, without Ray."""

import json
import re
import shlex
import shutil

import pytest

import fedgrid
from fedgrid.engine.runtime.plugins import active
from tests.e2e.day import DOCS, PAGE, PROGRESS, STEPS, STUDY, plain
from tests.helpers.command_line import fedgrid as command
from tests.helpers.command_line import new_storage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_mlflow")]

TIMED = re.compile(r"\bs\b|seconds|rounds/s| sec")
"""In lines with times, which differ each time."""
SHOWN = dict(re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", PAGE.read_text()))


def test_page_has_every_step():
    assert list(SHOWN) == [step.command for step in STEPS]


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Return command -> the lines that it prints, in the order of the page."""
    home, found = tmp_path_factory.mktemp("stranger"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for step in (step for step in STEPS if step.is_typed_by_test):
            _, *words = shlex.split(step.command)
            if step.saves:
                shutil.copy(DOCS / "examples" / step.saves, home / STUDY)
            active.use_plugins()  # As in a new process.
            result = command(*words, *(["--in-process"] if words[0] in ("run", "search") else []))
            assert result.code == 0, result.err
            found[step.command] = plain(result.out, home)
            if words[0] == "init":
                patch.chdir(home / STUDY)
                new_storage(home / STUDY / "runs")
    yield home / STUDY, found
    active.use_plugins()


def alike(line: str) -> str:
    """Return a line without its numbers, and however wide its columns are."""
    return re.sub(r"\s+|─+", " ", re.sub(r"[\d.]+", "0", line)).strip()


def test_commands_print_what_the_page_shows(typed):
    for line in (step.command for step in STEPS if step.is_typed_by_test and step.is_compared):
        printed = typed[1][line]
        known = {alike(one) for one in printed if not PROGRESS.search(one)}
        page = [one for one in SHOWN[line].splitlines() if one != "..." and not TIMED.search(one)]
        assert page
        assert [one for one in page if alike(one) not in known] == []


def test_the_studys_algorithm_finds_the_groups_and_the_other_one_does_not(typed):
    [best] = [lines for line, lines in typed[1].items() if line.startswith(f"fedgrid show {STUDY} --sort")]
    scores = {words[0]: words[1] for words in map(str.split, best) if len(words) == 4}
    assert (scores["one-cut"], scores["ocfl-hdbscan"], scores["fedavg"]) == ("1.000", "1.000", "0.000")
    assert float(scores["long-short"]) < 0.5


def test_the_studys_notebook_draws(typed, monkeypatch):
    """Its own lines for Jupyter are left out."""
    study, _ = typed
    monkeypatch.chdir(study)
    cells = json.loads((study / f"{STUDY}.ipynb").read_text())["cells"]
    names: dict[str, object] = {"fedgrid": fedgrid}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(re.sub(r"^%.*$", "", "".join(cell["source"]), flags=re.M), names)
    found = {result.algorithm for result in names["study"].finished}
    assert found == {"fedavg", "ocfl-hdbscan", "one-cut", "long-short"}
