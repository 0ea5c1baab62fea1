"""The authors' archive beside the published numbers: what is said holds for their runs, not for ours."""

import re

import pytest

from fedgrid.tracking.papers.ocfl.tables import build_published_tables
from fedgrid.tracking.papers.sections import build_paper_sections
from fedgrid.tracking.report.contents import build_report_page
from tests.helpers.studies import WHOLE, make_result, make_run, make_study

OF_OURS = re.compile(r"\b(ours?|plain|here|similarity_over)\b", re.IGNORECASE)
ALGORITHMS = (
    "fedavg",
    "sattler-as-published",
    "briggs-as-published",
    "ocfl-kmeans",
    "ocfl-affinity-as-published",
)


def study(*algorithms, is_archived):
    return make_study(
        [
            make_result(make_run(name, dataset=dataset, is_archived=is_archived), WHOLE)
            for dataset in ("mnist", "cifar10", "pathmnist")
            for name in algorithms
        ]
    )


def words(table):
    return " ".join([table.caption, *table.notes.values()])


@pytest.fixture(scope="module")
def archived():
    return build_published_tables(study(*ALGORITHMS, is_archived=True))


def named(tables, name):
    return next(table for table in tables if table.name == name)


def test_no_sentence_in_a_report_of_the_archive_is_about_runs_of_ours(archived):
    assert archived
    for table in archived:
        assert not OF_OURS.search(words(table)), table.name
        assert table.caption.startswith("Archive / published, both in the published conventions.")
    archived = study(*ALGORITHMS, is_archived=True)
    page = build_report_page(archived, published=True, papers=build_paper_sections(archived))
    for item in (*page.list_tables(), *page.list_figures()):
        assert not OF_OURS.search(item.caption), item.name


def test_what_is_known_of_the_published_runs_stands_beside_the_archive(archived):
    """Also of those with a mistake that our `as published` shares, and that so explains no difference."""
    cifar10 = words(named(archived, "against-table1-cifar10-15"))
    for fact in (
        "the counters outweigh all else.",
        "every client was alone from round 21 on.",
        "never split: the norm of their updates includes BatchNorm's counters",
        "hidden groups exchanged members.",
    ):
        assert fact in cifar10
    assert "the weights hardly change" in words(named(archived, "against-table1-pathmnist-15"))
    assert "The authors' network for these images is not published." in words(
        named(archived, "against-table1-mnist-15")
    )


def test_runs_of_ours_as_published_share_the_mistake_and_have_no_note_on_it():
    [table, *_] = build_published_tables(study("briggs-as-published", is_archived=False))
    assert not any("place of distances" in note for note in table.notes.values())


@pytest.mark.parametrize("is_archived", [True, False])
def test_head_of_a_report_says_where_archived_runs_come_from(is_archived):
    facts = dict(build_report_page(study("fedavg", is_archived=is_archived)).facts)
    assert facts.get("source") == ("the OCFL authors' archive" if is_archived else None)
