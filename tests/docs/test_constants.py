"""Numbers that pages quote are those of the code, or of the tables that were measured."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_layout
from fedgrid.engine.runtime.integrity.code import ROOTS, SOURCES
from fedgrid.engine.runtime.integrity.made_with import find_modules
from fedgrid.engine.runtime.leases.held_file import EXPIRES_AFTER
from fedgrid.grids.arena import stored_results
from fedgrid.grids.arena.definition import BUDGET
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.preset_files import list_presets
from tests.docs.test_pages import DOCS, ROOT, WRITTEN
from tests.e2e.same_bytes_runs import names

REFERENCES = {"oracle", "solo", "ward-told"}
OUTCOMES = stored_results.read_results().outcomes.values()
METHODS = {outcome.method for outcome in OUTCOMES} - REFERENCES
FAMILIES = {outcome.block: outcome.dataset for outcome in OUTCOMES}
WORDS = {"thirty": "30"}
PLANNED = re.compile(r"fedgrid run ([\w-]+) [^\n]*#[^\n]*?\b(\d+) runs")
"""A preset, and how many runs a comment says it has."""


def page(name: str) -> str:
    """Read a page as one line."""
    return " ".join((ROOT / name).read_text().split())


def rows(text: str) -> dict[str, list[str]]:
    """Read first cell -> other cells of the tables of a text, without marks."""
    cells = (
        [cell.strip(" *`") for cell in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line
    )
    return {first: rest for first, *rest in cells if any(rest)}


def section(file: Path, heading: str) -> str:
    """Return what stands below a heading, up to the next one."""
    return file.read_text().partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def run_count(preset: str) -> int:
    return len(load_grid(preset, {}, [], Path()).runs)


def head_share() -> str:
    """Compute the share of the entries of `digitnet` that its last layer has, in percent."""
    model = build_layout("digitnet", image_inputs(1, 8, 8), 10)
    in_head = sum(stop - start for start, stop in model.ranges(model.head_layers))
    return f"{100 * in_head / model.size:.1f}"


QUOTED: list[tuple[str, str, Callable[[], object]]] = [
    ("README.md", r"(\d+) runs: how long", lambda: run_count("paper-digits")),
    ("README.md", r"against (\d+) others", lambda: len(METHODS)),
    ("README.md", r"(\d+) methods, all tuned alike", lambda: len(METHODS)),
    ("README.md", r"meet (\d+) families", lambda: len(FAMILIES)),
    ("README.md", r"(thirty) of these families", lambda: [*FAMILIES.values()].count("digits")),
    ("CONTRIBUTING.md", r"trains (\d+) small runs", lambda: len(names())),
    ("docs/day.md", r"with (\d+) others", lambda: len(METHODS)),
    ("docs/arena.md", r"(\d+) families, thirty", lambda: len(FAMILIES)),
    ("docs/arena.md", r"(thirty) of them of digits", lambda: [*FAMILIES.values()].count("digits")),
    ("docs/arena.md", r"takes (\d+) steps on its own", lambda: BUDGET),
    (
        "docs/arena.md",
        r"run (\d+) algorithms at their defaults",
        lambda: len({run.algorithm.name for run in load_grid("arena", {}, [], Path()).runs}),
    ),
    (
        "docs/house.md",
        r"these are (\d+) modules",
        lambda: len(SOURCES.find_closure({*ROOTS, *find_modules(ALGORITHMS["fedavg"].algorithm)})),
    ),
    ("docs/round-cache.md", r"elsewhere after (\d+) seconds", lambda: int(EXPIRES_AFTER)),
    ("docs/our-algorithm.md", r"has ([\d.]+) % of the entries", head_share),
    ("docs/evidence/standardised-updates.md", r"has ([\d.]+) % of the entries", head_share),
]
"""Page, a pattern with the number, and how it is computed."""


@pytest.mark.parametrize(
    ("name", "pattern", "value"), QUOTED, ids=[f"{name}-{place}" for place, (name, *_) in enumerate(QUOTED)]
)
def test_quoted_number_is_that_of_the_code(name: str, pattern: str, value: Callable[[], object]) -> None:
    found = re.findall(pattern, page(name))
    assert [WORDS.get(number, number) for number in found] == [str(value())]


def test_numbers_of_runs_of_presets_are_those_of_the_presets() -> None:
    """Where a comment behind a command without conditions says how many there are."""
    said = {
        (preset, int(count))
        for text in WRITTEN.values()
        for preset, count in PLANNED.findall(re.sub(r"[^\n]*(--where|--seeds|\w=)[^\n]*", "", text))
        if preset in list_presets()
    }
    assert {preset for preset, _ in said} >= {"paper", "paper-digits", "flis"}
    assert {(preset, run_count(preset)) for preset, _ in said} == said


def test_answers_of_the_arena_are_those_of_its_tables() -> None:
    results = DOCS / "evidence" / "arena-results.md"
    groups = rows(section(results, "## Clustering: are the hidden groups found?"))
    served = rows(section(results, "## Serving: models as served"))
    tuned = rows(section(results, "## Serving: 45 steps of fine-tuning for all"))
    right = {method: cells[2].partition("/")[0] for method, cells in groups.items()}
    split = {method: cells[4].partition("/")[0] for method, cells in groups.items()}
    arena = page("docs/arena.md").partition("## Protocol")[0]
    finds, cuts, serves, tunes, _ = re.findall(r"\? \| (.*?) \|(?= \||\s*$)", arena)
    assert dict(re.findall(r"`([\w-]+)` in (\d+)", finds)).items() <= right.items()
    assert dict(re.findall(r"`([\w-]+)` in (\d+)", cuts)).items() <= split.items()
    for text, table in ((serves, served), (tunes, tuned)):
        said = re.findall(r"`([\w-]+)` (0\.\d+)", text)
        assert len(said) >= 3
        assert said == [(method, next(cell for cell in table[method] if "0." in cell)) for method, _ in said]
    readme = page("README.md")
    assert f"in {right['evident-groups']} of 54 runs" in readme
    assert f"propagation, has {right['ocfl-affinity']}." in readme


def test_counts_of_our_algorithm_are_those_of_the_evidence() -> None:
    evidence = (DOCS / "evidence" / "evident-groups.md").read_text().partition("### Judged")[2]
    judged = rows(evidence.partition("\n## ")[0])
    ours = rows((DOCS / "our-algorithm.md").read_text())
    total, evident, _, told, kmeans, affinity, hdbscan, bcl, *_ = judged["all with groups"]
    expected = [total, evident, told, kmeans, affinity, hdbscan, bcl]
    assert ours["right, 8 families with groups"] == expected
    total, evident, _, affinity, hdbscan, bcl = judged["all"]
    assert ours["cut up, 9 families without"] == [total, evident, "–", "–", affinity, hdbscan, bcl]
    skewed = rows(
        section(DOCS / "evidence" / "evident-groups.md", "## Clients that differ, but not by groups")
    )
    ours_text = page("docs/our-algorithm.md")
    assert f"accuracy of {skewed['evident-groups (cut up: 1, 2 and 0 of 5)'][0]};" in ours_text
    assert f"IFCA has {skewed['IFCA'][0]}," in ours_text
