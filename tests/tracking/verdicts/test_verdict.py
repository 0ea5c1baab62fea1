"""Two questions, each within a protocol; who takes part, the csv file, tables and sentences."""

from dataclasses import replace
from math import inf, isnan, nan

import pytest

from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING
from fedgrid.tracking.verdicts.outcomes import Outcome, from_csv, to_csv
from fedgrid.tracking.verdicts.page import verdict_page
from fedgrid.tracking.verdicts.tables import as_dict, sentence, table_of
from fedgrid.tracking.verdicts.verdict import NoVerdict, verdict

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
SEEDS = range(1000, 1008)


def of(method, accuracy, ari=0.0, clusters=2.0, **more):
    """Return a method's outcomes: one a seed, in a family with groups."""
    return [
        replace(
            SOME,
            method=method,
            title=method.upper(),
            seed=seed,
            personalised_accuracy=accuracy + 0.001 * (seed % 3),
            ari=ari,
            clusters=clusters,
            **more,
        )
        for seed in SEEDS
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


def test_cost_is_what_was_sent_until_the_first_test_that_is_good_enough():
    assert SOME.megabytes_to(0.4) == 2.5
    assert SOME.megabytes_to(0.41) == 5.0
    assert SOME.megabytes_to(0.9) == inf


def test_serving_is_judged_within_a_protocol_and_never_across():
    outcomes = [
        *of("mine", 0.8),
        *of("rival", 0.7),
        *of("mine", 0.6, protocol="fine-tuned"),
        *of("rival", 0.9, protocol="fine-tuned"),
    ]
    served, tuned = (
        verdict(outcomes, "mine", SERVING, "tuned", protocol) for protocol in ("served", "fine-tuned")
    )
    assert served.against[0].difference == pytest.approx(0.1)
    assert tuned.against[0].difference == pytest.approx(-0.3)
    assert (served.against[0].verdict, tuned.against[0].verdict) == ("better", "worse")
    assert list(served.field.standings) == ["mine", "rival"]
    assert list(tuned.field.standings) == ["rival", "mine"]


def test_clustering_is_asked_of_methods_that_cluster_in_families_with_groups():
    """A method that never has two clusters answers another question; one that has them elsewhere is in it."""
    outcomes = [
        *of("mine", 0.8, ari=1.0),
        *of("rival", 0.7, ari=0.2, clusters=1.0),
        *of("rival", 0.7, ari=0.2, settings="default"),
        *of("one-model", 0.9, clusters=1.0),
        *of("mine", 0.8, ari=0.0, family="iid", has_groups=False),
    ]
    found = verdict(outcomes, "mine", CLUSTERING, "tuned", "served")
    assert list(found.field.standings) == ["mine", "rival"]
    assert (found.field.where, found.field.standings["mine"].score) == ("1 families x 8 seeds", 1.0)
    with pytest.raises(NoVerdict, match="one-model has one cluster in every run"):
        verdict(outcomes, "one-model", CLUSTERING, "tuned", "served")


def test_reference_stands_beside_both_settings_and_is_neither_ranked_nor_tested():
    outcomes = [
        *of("mine", 0.8),
        *of("rival", 0.7),
        *of("oracle", 0.95, is_reference=True, settings="default"),
    ]
    found = verdict(outcomes, "mine", SERVING, "tuned", "served")
    assert list(found.field.ranks) == ["mine", "rival"]
    assert [each.rival for each in found.against] == ["rival"]
    assert found.field.standings["oracle"].score == pytest.approx(0.951, abs=0.001)
    assert found.field.standings["oracle"].is_reference


@pytest.mark.parametrize(
    ("outcomes", "question", "reason"),
    [
        (of("mine", 0.8), SERVING, "no other method has a result"),
        ([*of("mine", 0.8), *of("rival", 0.7, clusters=1.0)], CLUSTERING, "no other method forms clusters"),
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
        verdict(outcomes, "mine", question, "tuned", "served")


def test_sentence_names_rivals_and_what_could_not_be_shown():
    outcomes = [*of("mine", 0.8), *of("rival", 0.7), *of("like", 0.8)]
    found = verdict(outcomes, "mine", SERVING, "tuned", "served")
    words = sentence(found, 45)
    assert "better than 1 of 2 rivals (rival)" in words
    assert "undecided with 1 of 2 rivals (like)" in words
    assert "1 families x 8 seeds cannot show less than" in words
    few = [outcome for outcome in outcomes if outcome.seed < 1003]
    assert "take more --seeds" in sentence(verdict(few, "mine", SERVING, "tuned", "served"), 45)


def test_page_has_every_verdict_with_its_table_and_the_notes():
    outcomes = [*of("mine", 0.8, ari=1.0), *of("rival", 0.7)]
    verdicts = [verdict(outcomes, "mine", question, "tuned", "served") for question in (CLUSTERING, SERVING)]
    text = verdict_page(verdicts, 45, ["8 rows are kept"], (), "figures/{}.svg")
    assert text.count("| mine ") == 2
    assert "8 rows are kept" in text
    cells = {row.name: row.cells for row in table_of(verdicts[1], 45).rows}
    assert [cell.text for cell in cells["mine"]][-1] == "–"
    assert cells["rival"][-1].text == "better"


def test_verdict_for_programs_has_no_infinite_number():
    outcomes = [*of("mine", 0.8), *of("rival", 0.7)]
    few = [outcome for outcome in outcomes if outcome.seed == 1000]
    [rival] = as_dict(verdict(few, "mine", SERVING, "tuned", "served"), 45)["rivals"]
    assert (rival["method"], rival["interval"], rival["shows_from"]) == ("rival", None, None)
    assert rival["difference"] == pytest.approx(0.1)
