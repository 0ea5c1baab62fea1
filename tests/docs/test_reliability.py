"""Promises of reliability and security: the tests and scripts that are named exist."""

import re
from functools import cache
from pathlib import Path

import pytest

from docs.reference.tested_promises import read_promises
from tests.helpers.bad_inputs import BAD_INPUTS

ROOT = Path(__file__).parents[2]
EVIDENCE = (ROOT / "docs" / "evidence" / "reliability.md").read_text()
PROMISES = {text: its for rows in read_promises().values() for text, its in rows.items()}
NODES = sorted(
    {
        *(node for its in PROMISES.values() for node in its),
        *re.findall(r"`(tests/\S+?\.py::[\w:]+)`", EVIDENCE),
    }
)


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


@pytest.mark.parametrize("node", NODES)
def test_test_that_is_named_exists(node: str) -> None:
    file, _, name = node.partition("::")
    assert name in names_in(file)


def test_every_promise_is_a_sentence_with_a_test() -> None:
    assert [text for text, its in PROMISES.items() if not its or not text.endswith(".")] == []


def test_there_are_at_least_as_many_bad_inputs_as_the_page_says() -> None:
    [count] = re.findall(r"\| (\d+) bad inputs", EVIDENCE)
    assert len({bad.name for bad in BAD_INPUTS}) >= int(count)


def test_every_script_of_faults_is_named_and_exists() -> None:
    scripts = {path.stem for path in (ROOT / "tests/chaos").glob("*.py") if "__main__" in path.read_text()}
    assert set(re.findall(r"python -m tests\.chaos\.(\w+)", EVIDENCE)) == scripts
