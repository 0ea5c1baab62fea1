"""The pages on reliability and security: the tests and scripts that they name exist."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.bad_inputs import BAD_INPUTS

ROOT = Path(__file__).parents[2]
PAGES = ("SECURITY.md", "docs/reliability.md")
"""Those with promises."""
TEXT = "".join((ROOT / page).read_text() for page in (*PAGES, "docs/evidence/reliability.md"))
NODES = sorted(set(re.findall(r"`(tests/\S+?\.py)::([\w:]+)`", TEXT)))


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the tests of a file: functions, and `Class::method`."""
    found, group = set(), ""
    for line in (ROOT / file).read_text().splitlines():
        if match := re.match(r"( *)(?:class|def) (\w+)", line):
            indent, name = match.groups()
            group = f"{name}::" if not indent and name.startswith("Test") else group if indent else ""
            found.add(name if not indent else f"{group}{name}")
    return frozenset(found)


def test_files_that_are_named_exist() -> None:
    named = set(re.findall(r"`((?:tests|fedgrid|docs)/[\w/.]+)", TEXT))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize("file", sorted({file for file, _ in NODES}))
def test_tests_that_are_named_exist(file: str) -> None:
    assert {name for each, name in NODES if each == file} <= names_in(file)


@pytest.mark.parametrize(("page", "least"), [(PAGES[0], 9), (PAGES[1], 30)])
def test_every_promise_names_a_test(page: str, least: int) -> None:
    rows = re.findall(r"^\| .*\.( \|.*)$", (ROOT / page).read_text(), re.MULTILINE)
    assert [row for row in rows if not re.search(r"`tests/\S+::\w+", row)] == []
    assert len(rows) >= least


def test_there_are_at_least_as_many_bad_inputs_as_the_page_says() -> None:
    [count] = re.findall(r"\| (\d+) bad inputs", TEXT)
    assert len({bad.name for bad in BAD_INPUTS}) >= int(count)


def test_every_script_of_faults_is_named_and_exists() -> None:
    scripts = {path.stem for path in (ROOT / "tests/chaos").glob("*.py") if "__main__" in path.read_text()}
    assert set(re.findall(r"python -m tests\.chaos\.(\w+)", TEXT)) == scripts
