"""The citations of algorithms and data sets: there, well formed, and of the named source."""

import re
from pathlib import Path

import pytest
import yaml

from fedgrid.algorithms.averaging.entries import BIBTEX_OF_OPTIMIZER
from fedgrid.algorithms.built_in import ENTRIES
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import AlgorithmSection
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.grids.cite.references import (
    collect_references,
    find_algorithm_entries,
    format_own_entry,
    list_uncited,
    parse_entries,
)
from tests.helpers.small_runs import config

ROOT = Path(__file__).parents[3]
OURS = {"evident-groups", "solo", "ward-told"}
"""Algorithms without a paper: our own, and no federation at all."""
NEEDED = {
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "techreport": {"author", "title", "institution", "year"},
    "misc": {"author", "title", "year"},
}
"""What BibTeX's usual styles need, and the year."""
INCOMPLETE = {"bettinelli2024": {"title"}}
"""What is not known of a paper; a comment above the entry says so."""
TEXTS = [
    *(entry.bibtex for entry in ENTRIES),
    *(dataset.bibtex for dataset in DATASETS.values()),
    *BIBTEX_OF_OPTIMIZER.values(),
]


def fields(entry: str) -> dict[str, str]:
    """Return the fields of an entry of the form that ours have."""
    found = re.findall(r"^  (\w+) = \{(.*?)\},?$", entry, re.MULTILINE | re.DOTALL)
    return {name: " ".join(value.split()) for name, value in found}


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry.name not in OURS], ids=lambda e: e.name
)
def test_every_algorithm_cites_the_source_that_it_names(entry):
    author, year, arxiv = re.fullmatch(r"(\w+) et al\. (\d{4})(?:, arXiv:(\S+))?", entry.source).groups()
    cited = [fields(each) for each in parse_entries([entry.bibtex]).values()]
    assert [
        each
        for each in cited
        if each["author"].startswith(author) and each["year"] == year and each.get("eprint") == arxiv
    ]


def test_algorithms_of_our_own_have_no_entry():
    assert {name for name, entry in ALGORITHMS.items() if not entry.bibtex} == OURS


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_every_data_set_but_ours_has_a_citation(dataset):
    assert bool(parse_entries([dataset.bibtex])) != dataset.source.startswith("ours")


@pytest.mark.parametrize(
    ("key", "entry"),
    {**parse_entries(TEXTS), **parse_entries([format_own_entry()])}.items(),
    ids=lambda text: text[:20],
)
def test_entry_is_whole(key, entry):
    """Braces in pairs, ASCII for every BibTeX, no field twice, none of the needed ones missing."""
    *comments, text = entry.partition(f"@{re.search(r'@(.*)', entry, re.DOTALL).group(1)}")[:2]
    kind = re.match(r"@(\w+)\{" + re.escape(key) + r",\n", text).group(1)
    assert text.count("{") == text.count("}")
    assert text.endswith("\n}")
    assert entry.isascii()
    names = re.findall(r"^  (\w+) =", text, re.MULTILINE)
    assert len(names) == len(set(names)) == len(fields(text))
    lacking = NEEDED[kind] - set(names) - ({"year"} if key == "fedgrid" else set())
    assert lacking == INCOMPLETE.get(key, set())
    assert bool(lacking) == any(comment.startswith("%") for comment in comments)


def test_one_key_is_one_entry():
    found: dict[str, str] = {}
    for text in TEXTS:
        for key, entry in parse_entries([text]).items():
            assert found.setdefault(key, entry) == entry


def test_fedgrid_is_cited_as_citation_cff_says():
    file = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    ours = fields(format_own_entry())
    assert re.sub(r"[{}]", "", ours["title"]) == file["title"]
    assert ours["author"] == f"{{{' and '.join(author['name'] for author in file['authors'])}}}"
    assert ours["note"] == f"Version {file['version']}"
    if "date-released" in file:  # Not before the version is tagged.
        assert ours["year"] == str(file["date-released"].year)


def test_what_local_can_name_is_an_algorithm_with_a_citation():
    assert {name for name in LOCAL_METHODS if ALGORITHMS[name].bibtex} == set(LOCAL_METHODS)


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"name": "ifca"}, ["ghosh2020efficient"]),
        (
            {"name": "briggs", "local": {"name": "scaffold"}},
            ["briggs2020federated", "karimireddy2020scaffold"],
        ),
        ({"name": "briggs", "server_optimizer": "momentum"}, ["briggs2020federated", "hsu2019measuring"]),
        (
            {"name": "briggs", "server_optimizer": "yogi"},
            ["briggs2020federated", "mcmahan2017communication", "reddi2021adaptive"],
        ),
        ({"name": "solo"}, []),
    ],
)
def test_local_training_and_server_optimizer_are_cited_too(settings, keys):
    assert list(parse_entries([find_algorithm_entries(config(settings))])) == keys


def test_references_are_of_algorithms_then_data_then_fedgrid_each_once():
    runs = [config("ifca"), config("ifca", seed=1), config("solo")]
    assert list(collect_references(runs)) == ["ghosh2020efficient", "alpaydin1998optical", "fedgrid"]


def test_what_has_no_citation_is_named_with_its_source():
    own = config("solo").model_copy(update={"dataset": "folder:cats@0123456789ab"})
    stranger = config("fedavg").model_copy(update={"algorithm": AlgorithmSection(name="of-a-plugin")})
    assert list_uncited([config("solo"), own, stranger]) == [
        "SOLO (no federation)",
        "folder_cats (your own images)",
        "of-a-plugin (--plugin FILE loads its plugin)",
    ]
