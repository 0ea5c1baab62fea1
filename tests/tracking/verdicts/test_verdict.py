"""Two questions, each within a protocol and a class; who takes part, the csv file, tables and sentences."""

from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest

from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING
from fedgrid.tracking.verdicts.outcomes import ArenaRow, Outcome, build_outcome, from_csv, to_csv
from fedgrid.tracking.verdicts.verdict import NoVerdict, reach_verdict
from fedgrid.tracking.verdicts.verdict_text import (
    build_family_tables,
    build_verdict_table,
    format_sentence,
    format_verdict_page,
    verdict_to_dict,
)
from tests.helpers.studies import read_texts

SOME = Outcome(
    method="mine",
    title="MINE",
    settings="tuned",
    protocol="served",
    dataset="digits",
    family="rotated",
    seed=1000,
    is_reference=False,
    has_groups=True,
    told="",
    run_id="0123456789ab",
    ari=1.0,
    exactly_right=1.0,
    clusters=4.0,
    personalised_accuracy=0.8,
    worst_tenth_accuracy=0.5,
    generalised_accuracy=nan,
    held_out_accuracy=0.7,
    megabytes=12.5,
    tested=((3, 0.4, 2.5), (6, 0.8, 5.0)),
    clients=(0.9, nan, 0.7),
    made_with={"fedgrid": "0.1.0", "processor": "AVX2"},
)
FAMILIES = [f"family {number}" for number in range(8)]


def of(method, accuracy, ari=0.0, clusters=2.0, families=FAMILIES, **more):
    """Return a method's outcomes: two seeds a family, with groups."""
    return [
        replace(
            SOME,
            method=method,
            title=method.upper(),
            seed=seed,
            family=family,
            personalised_accuracy=accuracy + 0.001 * place + 0.01 * (seed - 1000),
            ari=ari,
            clusters=clusters,
            **more,
        )
        for place, family in enumerate(families)
        for seed in (1000, 1001)
    ]


def test_file_gives_back_every_outcome_and_the_same_bytes():
    outcomes = [SOME, replace(SOME, seed=1001, exactly_right=nan, tested=(), clients=(), made_with={})]
    text = to_csv(reversed(outcomes))
    again = from_csv(text, "outcomes.csv")
    assert to_csv(again) == text
    assert again[0].tested == SOME.tested
    assert repr(again[0].clients) == repr(SOME.clients)
    assert again[0].made_with == SOME.made_with
    assert isnan(again[1].exactly_right)
    assert not again[0].is_reference
    assert again[0].has_groups


def test_outcome_of_a_run_is_the_one_that_its_file_gives_back():
    """In all digits 2 / 3 would be less than the 0.666667 of a kept row."""
    curves = dict.fromkeys(
        ("ari", "clusters", "worst_tenth_accuracy", "generalised_accuracy"), np.array([nan, 1 / 3])
    )
    curves |= {"personalised_accuracy": np.array([nan, 2 / 3]), "bytes": np.array([1e6 / 3, 2e6 / 3])}
    run = Run(
        *("0123", "", Path(), "digits", "rotated", 3, "mine", None, 1000, 2),
        scores={"exactly_right": 1.0},
        round_R=np.array([1, 2]),
        curves=curves,
        accuracy_RK=np.array([[0.5, nan, 1 / 3], [2 / 3, nan, nan]]),
    )
    row = ArenaRow("mine", "MINE", "tuned", "served", "rotated", has_groups=True, told="")
    outcome = build_outcome(row, run, {"fedgrid": "0.1.0"})
    assert (outcome.tested, outcome.clients[0], outcome.clients[2]) == (
        ((2, 0.666667, 0.666667),),
        0.6667,
        0.3333,
    )
    assert repr(from_csv(to_csv([outcome]), "outcomes.csv")) == repr((outcome,))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (lambda text: text.replace("megabytes,", "mb,", 1), "megabytes"),
        (lambda text: text.replace(",served,", ",service,", 1), "line 2.*service"),
        (lambda text: text.replace(",1000,", ",many,", 1), "line 2.*many"),
    ],
)
def test_file_that_is_none_is_refused_by_column_or_line(changed, named):
    with pytest.raises(ValueError, match=f"kept.csv.*{named}"):
        from_csv(changed(to_csv([SOME])), "kept.csv")


def test_serving_is_judged_within_a_protocol_and_never_across():
    outcomes = [
        *of("mine", 0.8),
        *of("rival", 0.7),
        *of("mine", 0.6, protocol="fine-tuned"),
        *of("rival", 0.9, protocol="fine-tuned"),
    ]
    served, tuned = (
        reach_verdict(outcomes, "mine", SERVING, protocol) for protocol in ("served", "fine-tuned")
    )
    assert served.against[0].difference == pytest.approx(0.1)
    assert tuned.against[0].difference == pytest.approx(-0.3)
    assert (served.against[0].verdict, tuned.against[0].verdict) == ("better", "worse")
    assert list(served.field.outcomes) == ["mine", "rival"]
    assert list(tuned.field.outcomes) == ["rival", "mine"]


def test_clustering_is_asked_of_methods_that_cluster_in_families_with_groups():
    """A method that never has two clusters answers another question; one that has them elsewhere is in it."""
    outcomes = [
        *of("mine", 0.8, ari=1.0),
        *of("rival", 0.7, ari=0.2, clusters=1.0),
        *of("rival", 0.7, ari=0.2, protocol="fine-tuned"),
        *of("one-model", 0.9, clusters=1.0),
        *of("mine", 0.8, families=["iid"], has_groups=False),
    ]
    found = reach_verdict(outcomes, "mine", CLUSTERING, "served")
    assert list(found.field.outcomes) == ["mine", "rival"]
    assert (found.field.scope, found.field.scores["mine"]["digits", "family 0"]) == (
        "8 families of 8 kinds (each family the mean of 2 seeds)",
        1.0,
    )
    with pytest.raises(NoVerdict, match="one-model has one cluster in every run"):
        reach_verdict(outcomes, "one-model", CLUSTERING, "served")


def test_methods_compete_within_their_class_and_references_in_none():
    outcomes = [
        *of("mine", 0.8),
        *of("rival", 0.7),
        *of("ifca", 0.9, told="number"),
        *of("ward", 0.6, told="number"),
        *of("oracle", 0.95, told="groups", is_reference=True, settings="default"),
    ]
    mine, ifca = (reach_verdict(outcomes, name, SERVING, "served") for name in ("mine", "ifca"))
    assert [against.rival for against in (*mine.against, *ifca.against)] == ["rival", "ward"]
    assert list(mine.field.outcomes) == ["mine", "rival", "ifca", "ward", "oracle"]
    cells = {row.name: row.cells[0].text for row in build_verdict_table(mine, 45).rows}
    assert cells == {"mine": "1.0", "rival": "2.0", "ifca": "given k", "ward": "given k", "oracle": "–"}


@pytest.mark.parametrize(
    ("outcomes", "question", "reason"),
    [
        (of("mine", 0.8), SERVING, "no other has a result"),
        (
            [*of("mine", 0.8), *of("rival", 0.7, clusters=1.0)],
            CLUSTERING,
            "not given .* no other forms clusters",
        ),
        ([*of("mine", 0.8, clusters=1.0), *of("rival", 0.7, clusters=1.0)], CLUSTERING, "no method forms"),
        (
            [*of("mine", 0.8, has_groups=False), *of("rival", 0.7, has_groups=False)],
            CLUSTERING,
            "no family with hidden groups",
        ),
        ([*of("mine", 0.8, protocol="fine-tuned"), *of("rival", 0.7)], SERVING, "mine has no result"),
    ],
)
def test_missing_verdict_says_why(outcomes, question, reason):
    with pytest.raises(NoVerdict, match=reason):
        reach_verdict(outcomes, "mine", question, "served")


def test_sentence_says_what_can_be_shown_then_names_rivals():
    outcomes = [*of("mine", 0.8), *of("rival", 0.7), *of("like", 0.8)]
    words = format_sentence(reach_verdict(outcomes, "mine", SERVING, "served"), 45)
    assert (
        "8 families of 8 kinds (each family the mean of 2 seeds) show a mean difference of at least 0."
        in words
    )
    assert "from like none, however large" in words
    assert "better than 1 of 2 rivals (rival)" in words
    assert "undecided with 1 of 2 rivals (like)" in words
    few = [outcome for outcome in outcomes if outcome.family in FAMILIES[:6]]
    words = format_sentence(reach_verdict(few, "mine", SERVING, "served"), 45)
    assert words.index("cannot show any difference from 2 rivals: the test needs 7") < words.index(
        "undecided"
    )


def test_own_method_family_by_family_says_what_failed():
    outcomes = [
        *of("mine", 0.8, ari=1.0),
        *of("mine", 0.6, families=["iid"], has_groups=False, ari=nan),
        *of("rival", 0.7, ari=0.5, families=[*FAMILIES, "iid"]),
        *of("fedavg", 0.75, clusters=1.0, families=[*FAMILIES, "iid"]),
    ]
    outcomes = [
        replace(one, exactly_right=0.0, personalised_accuracy=0.1)
        if (one.method, one.family, one.seed) == ("mine", "family 3", 1001)
        else one
        for one in outcomes
    ]
    verdicts = [reach_verdict(outcomes, "mine", question, "served") for question in (CLUSTERING, SERVING)]
    [table] = build_family_tables(verdicts, 45)
    cells = read_texts(table)
    assert cells["family 0"] == ["0.805", "0.755 fedavg", "0.755", "1/3", "–"]
    assert cells["family 3"][3:] == ["3/3", "groups not found in 1 of 2, worse than fedavg"]
    assert cells["iid"][3:] == ["3/3", "false split in 2 of 2, worse than fedavg"]


def test_page_has_every_verdict_with_its_table_and_the_notes():
    outcomes = [*of("mine", 0.8, ari=1.0), *of("rival", 0.7)]
    verdicts = [reach_verdict(outcomes, "mine", question, "served") for question in (CLUSTERING, SERVING)]
    text = format_verdict_page(verdicts, 45, ["8 rows are kept"], "")
    assert text.count("| mine ") == 2
    assert text.count("family by family") == 1
    assert "8 rows are kept" in text
    cells = {row.name: row.cells for row in build_verdict_table(verdicts[1], 45).rows}
    assert [cell.text for cell in cells["mine"]][-1] == "–"
    assert cells["rival"][-1].text == "better"


def test_verdict_for_programs_has_no_infinite_number():
    outcomes = [*of("mine", 0.8), *of("rival", 0.7)]
    few = [outcome for outcome in outcomes if outcome.family == FAMILIES[0]]
    [rival] = verdict_to_dict(reach_verdict(few, "mine", SERVING, "served"), 45)["rivals"]
    assert (rival["method"], rival["shows_from"]) == ("rival", None)
    assert rival["difference"] == pytest.approx(0.1)
