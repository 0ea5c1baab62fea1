"""The tables that people read."""

import io
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import PlainConsole
from fedgrid.grids.display.tables import (
    RESULT_COLUMNS,
    build_failure_table,
    build_result_row,
    build_result_table,
    build_summary_rows,
    build_summary_table,
    format_duration,
    format_pace,
)
from fedgrid.grids.results.runs import describe_configs
from fedgrid.grids.results.times import Times
from fedgrid.tracking.scoring.client_scores import CLIENTS, PUBLISHED_CLIENTS
from fedgrid.tracking.scoring.partitions import PARTITION


def outcome(
    algorithm="fedavg",
    *,
    seed=0,
    seconds=12.34,
    uncached=None,
    error=None,
    clustering_round=None,
    **more,
):
    """Return a configuration and how its run ended; with `uncached` seconds a round of 15 was a hit."""
    times = Times(seconds, seconds if uncached is None else uncached, 15, 15 if uncached is None else 14)
    scores = {
        **dict.fromkeys((each.name for each in (*CLIENTS, *PUBLISHED_CLIENTS)), 0.12345),
        **dict.fromkeys(("published_rand", "published_ami", "published_com", "published_round"), 0.12345),
        **{each.name: 1.0 for each in PARTITION},
        **dict.fromkeys(("mean_ari", "mean_ami", "mean_homogeneity", "mean_completeness"), 0.12345),
        **dict.fromkeys(("last_change_round", "exactly_right"), 0.12345),
        "clustering_round": clustering_round,
        "clusters": 3,
        "rounds": 15,
        "silhouette": 0.5,
        "evaluated_round": 15,
    }
    config = complete_config({"algorithm": algorithm, "seed": seed} | more, Path("unused"))
    return config, {"scores": {} if error else scores, "times": asdict(times), "cause": error or ""}


def rows(*outcomes):
    """Return the rows of a grid of these runs."""
    runs = describe_configs([config for config, _ in outcomes], Storage.from_text("runs"))
    return [replace(run, **result) for run, (_, result) in zip(runs, outcomes, strict=True)]


def printed(table, width):
    text = io.StringIO()
    PlainConsole(file=text, width=width).print(table)
    return text.getvalue()


def test_result_row_of_a_finished_run():
    row = build_result_row(*rows(outcome("ocfl-kmeans", clustering_round=4)))
    names = ("algorithm", "seed", "clusters", "ari", "clustering_round", "learning_gap", "seconds", "error")
    assert [row[name] for name in names] == ["ocfl-kmeans", 0, 3, 1.0, 4, 0.12345, 12.3, None]


def test_result_row_of_a_failed_run_has_every_key_and_no_scores():
    failed = build_result_row(*rows(outcome(error="client 3, round 2: out of memory")))
    assert list(failed) == list(build_result_row(*rows(outcome())))
    assert failed["error"] == "client 3, round 2: out of memory"
    assert {failed[name] for name in RESULT_COLUMNS} == {None}


@pytest.mark.parametrize("width", [80, 140])
def test_result_table_fits_a_terminal(width):
    """The widest row: seconds of five digits. Nothing is cut, and only names are wrapped, in 80 columns."""
    runs = rows(outcome("ocfl-affinity", seconds=9999.4, clustering_round=100), outcome(seconds=2))
    lines = [line.rstrip() for line in printed(build_result_table(runs, width), width).splitlines()]
    name, *rest = ("ocfl-", "affinity") if width == 80 else ("ocfl-affinity",)
    assert max(map(len, lines)) <= width
    assert lines[0] == "Final round, digits-15-nonoverlapping-balanced, seed 0"
    numbers = "3 1.000 1.000 1.000 1.000 0.123 0.123 0.123 0.123 0.123"
    assert lines[4].split() == [name, "100", *numbers.split(), "9999"]
    assert lines[5:-1] == rest
    assert lines[-1].split() == ["fedavg", "–", *numbers.split(), "2.0"]


@pytest.mark.parametrize("width", [80, 92])
def test_result_table_has_the_time_without_the_cache_after_hits_where_it_fits(width):
    """In all tables, so that they look alike, also with the widest row."""
    hit = outcome("ocfl-affinity", seconds=9999.4, uncached=99999.4, clustering_round=100)
    runs = rows(hit, outcome(seconds=2, seed=1))
    assert [build_result_row(run)["uncached_seconds"] for run in runs] == [99999.4, 2.0]
    text = printed(build_result_table(runs, width), width)
    lines = [line.split() for line in text.splitlines()]
    assert max(map(len, text.splitlines())) <= width
    if width == 92:
        assert lines[1][-1] + lines[2][-1] == "un-cached"
        assert lines[4][-3:] == ["0.123", "9999", "99999"]
        assert lines[9][-3:] == ["0.123", "2.0", "2.0"]
    else:
        assert "cached" not in text


def test_every_seed_and_every_value_of_a_further_axis_has_its_own_table():
    runs = rows(*(outcome(seed=seed, training={"local_epochs": epochs}) for epochs, seed in ((1, 0), (5, 1))))
    text = " ".join(printed(build_result_table(runs, 100), 100).split())
    for epochs, seed in ((1, 0), (5, 1)):
        assert f"digits-15-nonoverlapping-balanced, training.local_epochs {epochs}, seed {seed}" in text
    shown = [build_result_row(run, ["training.local_epochs"]) for run in runs]
    assert [row["training.local_epochs"] for row in shown] == ["1", "5"]


def test_failure_table_shows_whole_causes():
    """Brackets are not markup. The folder's name distinguishes runs of one algorithm."""
    [bad] = rows(outcome(error="client [bold]7[/], round 3: " + "word " * 40 + "end"))
    text = printed(build_failure_table([replace(bad, folder=Path("runs/fedavg-s0-0123abc"))]), 80)
    words = " ".join(text.replace("│", " ").split())
    assert "fedavg-s0-0123abc client [bold]7[/], round 3:" in words
    assert words.count("word") == 40
    assert "end" in words
    assert "…" not in text


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (3.14, "3.1 s"),
        (59.6, "60 s"),
        (99, "99 s"),
        (100, "1 min 40 s"),
        (3599, "59 min 59 s"),
        (7500, "2 h 5 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_duration_is_formatted_for_people(seconds, says):
    assert format_duration(seconds) == says


@pytest.mark.parametrize(
    ("rounds", "says"),
    [(12.34, "12.3 rounds/s"), (1, "1.0 rounds/s"), (0.004, "4 min 10 s/round"), (0, "0.0 rounds/s")],
)
def test_pace_below_one_round_a_second_is_in_seconds_a_round(rounds, says):
    assert format_pace(rounds) == says


def scored(algorithm, ari, seed, training=None, **scores):
    config, result = outcome(algorithm, seed=seed, training=training or {})
    own = {"ari": ari, "exactly_right": ari == 1, **scores}
    return config, result | {"scores": result["scores"] | own}


def test_run_without_groups_is_not_exact():
    """As of the split `iid`, where one cluster has an ARI of 1."""
    found = scored("fedavg", 1.0, 0, exactly_right=None)
    assert build_summary_rows(rows(found, scored("fedavg", 1.0, 1)))[0]["exact"] == 1
    [row] = build_summary_rows(rows(found))
    assert (row["exact"], row["with_groups"]) == (0, 0)
    assert "/1" not in printed(build_summary_table([row]), 80)


def test_summary_of_several_seeds_has_their_number_and_the_deviation_of_each_mean():
    """ARI of 1.0 and 0.5: the deviation is 0.5 / sqrt 2. Of the accuracies one is missing."""
    one, *others = rows(
        scored("fedavg", 0.0, 0),
        scored("ocfl-kmeans", 1.0, 0, personalised_accuracy=0.5),
        scored("ocfl-kmeans", 0.5, 1, personalised_accuracy=None),
    )
    single, several = build_summary_rows([one, *others])
    assert [(row["algorithm"], row["runs"], row["exact"], row["ari"]) for row in (single, several)] == [
        ("fedavg", 1, 0, 0.0),
        ("ocfl-kmeans", 2, 1, 0.75),
    ]
    assert several["personalised_accuracy"] == 0.5
    assert several["spread"]["ari"] == pytest.approx(0.125**0.5)
    assert several["spread"]["personalised_accuracy"] is None
    text = printed(build_summary_table(build_summary_rows(others)), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "2 seeds" in text
    assert "±.354" in text
    assert "±" not in printed(build_summary_table([single]), 80)


def test_summary_shows_an_axis_of_the_grid_and_does_not_average_over_it():
    means = build_summary_rows(
        rows(
            *(
                scored(name, ari, 0, training={"local_epochs": epochs})
                for epochs, ari in ((1, 0.2), (3, 0.6))
                for name in ("fedavg", "ocfl-kmeans")
            )
        )
    )
    assert [(row["setting"], row["algorithm"], row["ari"]) for row in means] == [
        ("training.local_epochs 1", "fedavg", 0.2),
        ("training.local_epochs 1", "ocfl-kmeans", 0.2),
        ("training.local_epochs 3", "fedavg", 0.6),
        ("training.local_epochs 3", "ocfl-kmeans", 0.6),
    ]
    text = " ".join(printed(build_summary_table(means), 80).split())
    assert "Final round, training.local_epochs 1, mean" in text
    assert "Final round, training.local_epochs 3, mean" in text
