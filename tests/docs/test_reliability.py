"""docs/reliability.md: what it says shows a promise is there, and every script of `tests/chaos` is in it."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.bad_inputs import BAD_INPUTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text()
NODES = sorted(set(re.findall(r"`(tests/\S+?\.py)::([\w:]+)`", TEXT)))
INPUTS = sorted(set(re.findall(r"`\[(.+?)\]`", TEXT)))


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


@pytest.mark.parametrize("file", sorted({file for file, _ in NODES}))
def test_tests_that_are_named_exist(file: str) -> None:
    assert {name for each, name in NODES if each == file} <= names_in(file)


def test_bad_inputs_that_are_named_exist_and_there_are_a_hundred() -> None:
    known = {bad.name for bad in BAD_INPUTS}
    assert set(INPUTS) <= known
    assert len(known) >= 100


def test_every_script_of_faults_is_named_and_exists() -> None:
    scripts = {path.stem for path in (ROOT / "tests/chaos").glob("*.py") if "__main__" in path.read_text()}
    assert set(re.findall(r"python -m tests\.chaos\.(\w+)", TEXT)) == scripts
