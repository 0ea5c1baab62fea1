"""The generated pages: every algorithm, key, column and name is there, with a meaning."""

import re
from pathlib import Path

import pytest

import fedgrid
from docs.reference import algorithms, markdown, records
from docs.reference.pages import pages
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.models.registry import MODELS

REFERENCE = "reference/"
ROW = re.compile(r"^\| `([^`]+)` \|(?:.*\|)? ([^|]*) \|$", re.MULTILINE)


def rows(page: str) -> dict[str, str]:
    """Return first cell -> last cell of the rows of a page's tables whose first cell is code."""
    return dict(ROW.findall(pages()[REFERENCE + page]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_page_of_an_algorithm_has_its_parts(name: str) -> None:
    text = pages()[f"{REFERENCE}algorithms/{name}.md"]
    headings = set(re.findall("^## (.*)$", text, re.MULTILINE))
    assert {"Settings", *(markdown.SECTIONS[part] for part in ("Sends", "Degenerate cases"))} <= headings
    assert markdown.SECTIONS["Absent clients"] in headings
    assert re.search(r"^Source|^Ours", text, re.MULTILINE) or name in ("solo", "oracle")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_of_an_algorithm_has_a_meaning(name: str) -> None:
    table = pages()[f"{REFERENCE}algorithms/{name}.md"].partition("## Settings")[2].partition("\n## ")[0]
    found = dict(ROW.findall(table))
    assert found or name == "solo"
    assert [key for key, meaning in found.items() if not meaning] == []


def test_every_room_of_the_code_is_described() -> None:
    found = rows("rooms.md")
    assert {"cli/commands/", "runtime/round_cache/", "clustered/flis/", "scoring/"} <= set(found)
    assert [room for room, purpose in found.items() if not purpose] == []


def test_every_data_set_model_and_split_is_described() -> None:
    found = rows("data.md")
    listed = [name for name, dataset in DATASETS.items() if dataset.is_listed]
    assert {*listed, *MODELS, *KINDS} <= set(found)
    text = pages()[f"{REFERENCE}data.md"]
    assert [name for name in KINDS if not re.search(rf"^\| `{name}` \| [A-Z]", text, re.MULTILINE)] == []


def test_files_of_a_finished_run_are_those_of_the_page(tmp_path: Path) -> None:
    run = {"algorithm": "fedavg", "clients": 3, "training": {"rounds": 1, "local_epochs": 1}}
    folder = fedgrid.run(run, storage=tmp_path).folder
    found = {re.sub(r"-\d+", "-N", path.name) for path in Path(folder).iterdir()}
    assert found | {"mlflow.json", "tags.json"} == set(records.FOLDER)


def test_every_exported_name_is_on_one_page() -> None:
    """Or of the contract: with the hooks of plugins, their signatures, shapes and fields."""
    text = pages()[f"{REFERENCE}api.md"] + pages()[f"{REFERENCE}contract.md"]
    assert sorted(re.findall(r"^### (\S+)$", text, re.MULTILINE)) == sorted(fedgrid.__all__)
    updates, local = (
        text.partition(f"\n### {name}\n")[2].partition("\n### ")[0] for name in ("Updates", "LocalModel")
    )
    assert "**`Updates.means`**" in updates
    assert (
        "    groups: Sequence[Sequence[int]],\n    weights: Mapping[int, float] | None = None,\n" in updates
    )
    assert "float32, shape (P,)" in updates
    assert "| `learning_rate` | `float` |" in local


def test_sections_of_a_docstring_are_told_apart() -> None:
    def example() -> None:
        """First line.

        More: not a section.

        Sends: Two lines,
        one paragraph.

        Degenerate cases:

        - None.
        """

    assert markdown.sections(example) == {
        "": "First line.\n\nMore: not a section.",
        "Sends": "Two lines,\none paragraph.",
        "Degenerate cases": "- None.",
    }


def test_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown.table(("a",), [("x | y",)]) == "| a |\n| --- |\n| x \\| y |"


def test_own_section_replaces_that_of_the_base_class_but_degenerate_cases_add_up() -> None:
    text = pages()[f"{REFERENCE}algorithms/scaffold.md"]
    assert algorithms.list_classes(ALGORITHMS["scaffold"])[1].__name__ == "FedOpt"
    assert "Twice what FedAvg does" in text
    assert "four bytes an entry" not in text
    assert "keeps its old variate" in text
    assert "keeps its model and its moments" in text
