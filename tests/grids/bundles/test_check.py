"""What `fedgrid bundle check` says of true bundles, and of forged ones whose checksums are all right."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.integrity.made_with import load_parts
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles import check as check_module
from fedgrid.grids.bundles.check import CheckedBundle, bound_differences
from fedgrid.grids.bundles.layout import MANIFEST
from fedgrid.grids.bundles.read_bundle import open_bundle
from fedgrid.grids.bundles.verdicts import Verdict, compare_run
from fedgrid.grids.planning import checks
from fedgrid.manifest import ProvenancePart
from fedgrid.sealed_json import seal_values
from fedgrid.tracking.scoring.scores import score_run
from tests.helpers.bundles import RUNS, edit_bundle, find_run, forge_table
from tests.helpers.command_line import Result, fedgrid
from tests.helpers.manifests import list_files
from tests.helpers.small_runs import config

Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(autouse=True)
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work as somebody who knows neither the author's plugins nor where the data lie."""
    monkeypatch.setattr(own_images, "_places", {})
    for name in ("_sources", "_loaded"):
        monkeypatch.setattr(active, name, {})
    monkeypatch.chdir(tmp_path)
    active.use_plugins()


def reproduce(bundle: Path, *options: object) -> Result:
    return fedgrid("bundle", "check", bundle, "--in-process", *options)


def facts(result: Result) -> dict[str, Any]:
    return result.events[-1]


def test_true_bundle_is_the_same_to_the_byte(home: Path, bundle: Path) -> None:
    result = reproduce(bundle, "--all", "--trust", "--data", home / "sites.csv", "--json")
    assert result.code == 0, result.err
    said = facts(result)
    assert [verdict["outcome"] for verdict in said["verdicts"]] == ["same bytes"] * RUNS
    assert said["proof"] == f"{RUNS} of {RUNS} recomputed, all the same."
    assert said["wrong_scores"] == []


def test_what_cannot_be_tried_or_compared_is_said_and_not_counted(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The split of one seed, all runs of a table whose file is not here, and tables of another fedgrid."""
    (tmp_path / "other.csv").write_text("site,x,ill\n1,2,0\n")
    wrong = reproduce(bundle, "--data", tmp_path / "other.csv")
    assert wrong.code == 2
    assert "csv:sites.csv" in wrong.err

    refused = reproduce(bundle, "--all", "--show")
    assert (refused.code, "class Own(FedOpt)" in refused.out) == (2, True)
    assert "own.py" in refused.err
    assert "--trust" in refused.err
    assert (
        active.find_titles(active.list_plugin_files()[0].digest if active.list_plugin_files() else "") == {}
    )

    deal = checks.deal_images

    def dealt(run: RunConfig, *given: Any) -> Any:
        if run.seed == 1:
            raise ConfigError("seed 1 is refused")
        return deal(run, *given)

    monkeypatch.setattr(checks, "deal_images", dealt)
    with edit_bundle(bundle, tmp_path / "older.zip") as folder:
        (folder / MANIFEST).write_text(seal_values({**unseal_file(folder / MANIFEST), "fedgrid": "0.0.9"}))
        (folder / "report/tables/runs.csv").write_bytes(b"\xff")
        run, place = find_run(folder, "digits", "fedavg", 0)
        claim(place, fedgrid="0.0.8")
        list_files(place, states={})
        scores = unseal_file(place / "scores.json")
        del scores["ari"]
        (place / "scores.json").write_text(seal_values({**scores, "of_old": 0.5}))
    result = reproduce(tmp_path / "older.zip", "--all", "--trust")
    assert result.code == 0, result.err
    same = f"2 of {RUNS} recomputed, all with the same decisions."
    for words in (same, "6 could not be tried", "--data PATH", "seed 1 is"):
        assert words in result.out
    last = result.out.splitlines()[-1]
    for word in (
        "author's word",
        "models not",
        "scores that only one",
        "fedgrid 0.0.8",
        "tables",
        "fedgrid 0.0.9",
    ):
        assert word in last
    # They were not compared.
    assert "report/tables/*.csv" in result.out


def without(column: str) -> Change:
    """Return a change that takes a column away."""
    return lambda table: table.drop_columns([column])


def add_to(number: float, column: str, row: int = -1) -> Change:
    """Return a change of one value of a table."""

    def change(table: pa.Table) -> pa.Table:
        values = np.array(table[column].to_pylist(), np.float64)
        values[row] += number
        place = table.column_names.index(column)
        return table.set_column(place, table.schema.field(column), pa.array(values, table[column].type))

    return change


def claim(folder: Path, **made_with: str) -> None:
    """Let a run say that it was made with something else."""
    parts = [ProvenancePart(p.from_round, {**p.made_with, **made_with}) for p in load_parts(folder)]
    list_files(folder, made_with=tuple(parts))


def test_claimed_processor_confirms_no_other_score_and_is_said_last(bundle: Path, tmp_path: Path) -> None:
    """Of digits: last digits of one run; of another a final accuracy, and its scores."""
    forged = tmp_path / "forged.zip"
    with edit_bundle(bundle, forged) as folder:
        run, place = find_run(folder, "digits", "fedavg", 0)
        claim(place, processor="another")
        forge_table(place, "clients", add_to(1e-8, "personalised_loss"))
        run, place = find_run(folder, "digits", "fedavg", 1)
        claim(place, processor="another", torch="1.0.0")
        forge_table(place, "clients", add_to(0.5, "personalised_accuracy"))
        stored = unseal_file(place / "scores.json")
        (place / "scores.json").write_text(seal_values({**stored, **score_run(place)}))
    result = reproduce(forged, "--all", "--trust")
    assert result.code == 1, result.err
    assert "agrees to round 1 only" in result.out
    assert f"4 of {RUNS} recomputed, 1 of them not confirmed." in result.out
    last = result.out.splitlines()[-1]
    assert "author's word" in last
    assert "1 runs count as the same, but not to the byte (numbers within 1e-06" in last
    assert "processor another" in last
    assert "torch 1.0.0" not in last


def test_what_was_not_compared_is_listed_from_the_files(bundle: Path, tmp_path: Path) -> None:
    """All but what a run was asked for, its scores, its plugin, and the tables as csv; and what was drawn."""
    with edit_bundle(bundle, tmp_path / "more.zip") as folder:
        (folder / "report/tables/notes.txt").write_text("all of it is true")
        run, _ = find_run(folder, "digits", "fedavg", 0)
    with open_bundle(tmp_path / "more.zip") as theirs:
        drawn = [(run, Verdict("same bytes")), (theirs.runs[0], Verdict("not tried"))]
        listed = CheckedBundle(theirs, drawn, [], [], {}).list_unchecked()
    assert [name for name in listed if "report/figures" not in name] == [
        "README.md",
        "environment.txt",
        "report/index.html",
        "report/tables/*.md (23)",
        "report/tables/*.tex (23)",
        "report/tables/*.txt (1)",
        "ro-crate-metadata.json",
        f"storage/*/clients.parquet ({RUNS - 1})",
        f"storage/*/manifest.json ({RUNS})",
        f"storage/*/rounds.parquet ({RUNS - 1})",
        f"storage/*/timings.parquet ({RUNS})",
        "storage/grids/mine/plugins.json",
        "storage/grids/mine/preset.yaml",
    ]


def test_verdicts_tell_apart_runs_of_one_name() -> None:
    runs = [config("fedavg"), config({"name": "fedavg", "aggregate": "median"})]
    drawn = [(run, Verdict("same bytes")) for run in runs]
    table = CheckedBundle(SimpleNamespace(runs=runs), drawn, [], [], {}).build_table()
    assert [row[0].removeprefix(runs[0].name) for row in table.rows] == [
        " (aggregate mean)",
        " (aggregate median)",
    ]


def test_forged_runs_are_named(home: Path, bundle: Path, tmp_path: Path) -> None:
    """Of digits: a number in its last digits, a run of another seed, other data, and a score of one's own."""
    forged = tmp_path / "forged.zip"
    with edit_bundle(bundle, forged) as folder:
        run, place = find_run(folder, "digits", "fedavg", 0)
        forge_table(place, "clients", add_to(1e-12, "personalised_accuracy"))
        run, place = find_run(folder, "digits", "fedavg", 1)
        _, other = find_run(folder, "digits", "own", 0)
        for table in ("rounds", "clients"):
            of_other = pa.parquet.read_table(other / f"{table}.parquet")
            forge_table(place, table, lambda _, of_other=of_other: of_other)
        run, place = find_run(folder, "digits", "own", 0)
        claim(place, images="0" * 64)
        scored = next((folder / "report/tables").glob("clustering-final-digits*.csv"))
        scored.write_text(scored.read_text().replace("0.", "0.1"))
        (folder / "report/tables/extra.csv").write_text("algorithm,accuracy\nmine,0.99\n")
        _, place = find_run(folder, "digits", "own", 1)
        scores = unseal_file(place / "scores.json")
        del scores["mean_ari"]
        scores |= {"personalised_accuracy": 0.99, "won": 1.0}
        (place / "scores.json").write_text(seal_values(scores))
    result = reproduce(forged, "--all", "--trust", "--json")
    assert result.code == 1, result.err
    said = facts(result)
    verdicts = {v["run"].rpartition("balanced-")[2]: (v["outcome"], v["why"]) for v in said["verdicts"]}
    outcome, why = verdicts["fedavg-s0"]
    assert outcome == "differs"
    assert why.startswith("from round 2 in personalised_accuracy of client 3: ")
    assert verdicts["fedavg-s1"][0] == "differs"
    assert verdicts["fedavg-s1"][1].startswith("from round 1 in ")
    assert verdicts["own-s0"] == ("differs", verdicts["own-s0"][1])
    assert "digits has digest" in verdicts["own-s0"][1]
    assert verdicts["own-s1"] == ("same bytes", "")
    wrong = [line.partition("-own-s1: ")[2] for line in said["wrong_scores"] if "-own-s1: " in line]
    assert [line.split(",")[0] for line in wrong] == [
        "mean_ari is missing",
        "personalised_accuracy is 0.99",
        "won is 1.0",
    ]
    assert {scored.name, "extra.csv"} <= {*said["wrong_tables"]}
    assert said["proof"] == f"4 of {RUNS} recomputed, 3 of them differ."


P = ["with P"]
ONE_ROUND = "agrees to round 1 only; "


@pytest.mark.parametrize(
    ("change", "elsewhere", "outcome", "why"),
    [
        (add_to(1e-8, "personalised_accuracy"), P, "same decisions", "numbers within 1e-06; with P"),
        (
            add_to(2e-6, "update_norm"),
            P,
            "same decisions",
            "final scores within 1e-06, others 2e-06 (update_norm); ",
        ),
        (add_to(0.1, "personalised_accuracy", row=4), P, "not confirmed", ONE_ROUND),
        # Of four clients whose mean is the score one has 0.2 more.
        (add_to(0.2, "personalised_loss"), P, "not confirmed", f"{ONE_ROUND}final scores up to 0.05 apart ("),
        (
            add_to(0.2, "personalised_loss", row=0),
            P,
            "differs",
            "from round 1 in personalised_loss of client 0: ",
        ),
        (add_to(1.0, "cluster"), P, "differs", "from round 2 in cluster of client 3: 0, here 1"),
        (without("train_loss"), [], "differs", "from round 1 in train_loss, recorded only there"),
    ],
)
def test_other_processor_may_have_other_last_digits(
    bundle: Path, tmp_path: Path, change: Change, elsewhere: list[str], outcome: str, why: str
) -> None:
    with (
        edit_bundle(bundle, tmp_path / "a.zip") as theirs,
        edit_bundle(bundle, tmp_path / "b.zip") as ours,
    ):
        run, there = find_run(theirs, "digits", "fedavg", 0)
        _, here = find_run(ours, "digits", "fedavg", 0)
        forge_table(here, "clients", change)
        assert compare_run(run, here, there, elsewhere).outcome == outcome
        verdict = compare_run(run, there, here, elsewhere)
    assert verdict.outcome == outcome
    assert verdict.why.startswith(why)


def test_run_whose_files_another_machine_has_is_not_tried(bundle: Path, tmp_path: Path) -> None:
    with open_bundle(bundle) as theirs:
        verdict = check_module._judge_after(
            theirs.runs[0], theirs, Storage.from_text(tmp_path / "mine"), None
        )
    assert verdict.outcome == "not tried"
    assert "--storage" in verdict.why


@pytest.mark.parametrize(
    ("runs", "same", "most"), [(280, 5, 125), (280, 280, 0), (6, 2, 4), (1, 1, 0), (5000, 250, 58)]
)
def test_bound_is_that_of_a_sample_without_replacement(runs: int, same: int, most: int) -> None:
    """Five that do not differ have a probability of 5.05 % if 125 of 280 differ, of 4.9 % if 126 do.

    Of 5,000 runs there are more samples of 250 than a float can count; the hypergeometric distribution has
    5.02 % for 58 that differ, 4.8 % for 59.
    """
    assert bound_differences(runs, same) == most
