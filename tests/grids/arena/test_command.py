"""`fedgrid arena` as a user types it, in this process, on a few clients and rounds."""

import csv
import io
import re
from dataclasses import replace

import pytest

from fedgrid.grids.arena import stored_results
from fedgrid.grids.arena.check import spread_evenly
from fedgrid.grids.arena.stored_results import StoredResults
from fedgrid.tracking.verdicts.outcomes import to_csv
from tests.helpers.command_line import fedgrid, strict_json
from tests.helpers.killed import Killed, kill_after
from tests.tracking.verdicts.test_verdict import SOME

pytestmark = pytest.mark.usefixtures("unrendered")

SMALL = (
    *("arena", "--algorithms", "flis-dc", "--trials", 1, "--seeds", "1000", "--in-process"),
    *("--families", "rotated-equal,iid", "training.rounds=2", "clients=6"),
    *("split.reference_images=20", "split.quantity=0.3"),
    *("training.local_epochs=1", "--fine-tune", 9),
)
GRID = "arena-rows-digits"
MINE = """
from fedgrid import AlgorithmEntry, FedOpt, FedOptSettings

ALGORITHMS = [AlgorithmEntry("mine", "MINE", "as fedavg", "ours", FedOpt, FedOptSettings())]
"""


def lines(text):
    return list(csv.DictReader(io.StringIO(text)))


def configs(storage):
    return list(storage.glob("*/config.json"))


@pytest.fixture(scope="module", autouse=True)
def nothing_is_kept(tmp_path_factory):
    """Let every row be computed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_results, "FOLDER", tmp_path_factory.mktemp("empty"))
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, unrendered):
    storage = tmp_path_factory.mktemp("arena")
    result = fedgrid(*SMALL, "--storage", storage)
    assert result.code == 0, result.err
    return storage, result


def test_verdict_is_printed_and_written_with_every_row(undisturbed):
    storage, result = undisturbed
    folder = storage / "grids" / GRID
    rows = lines((folder / "outcomes.csv").read_text())
    # Two competitors and two references, under two protocols, in two families.
    assert len(rows) == 4 * 2 * 2
    assert {row["protocol"] for row in rows} == {"served", "fine-tuned"}
    assert {row["torch"] for row in rows} != {""}
    assert {row["processor"] for row in rows} != {""}
    said = " ".join(result.out.split())
    assert "serving (9 steps of fine-tuning for all), methods not given the number of groups" in said
    assert (
        "2 families of 2 kinds (each family the mean of 1 seed) cannot show any difference from 1 rival"
        in said
    )
    assert "flis-dc is undecided with 1 of 1 rival (fedavg)" in said
    assert "note: no verdict on clustering: of the methods not given the number of groups" in result.out
    page = (folder / "verdict.md").read_text()
    assert "flis-dc, serving (models as served)" in page
    assert "flis-dc, family by family (models as served)" in page
    assert "no verdict on clustering" in page
    pictures = re.findall(r"\]\((figures/.*\.svg)\)", page)
    assert {"figures/pareto.svg", "figures/failures-serving-served.svg"} < set(pictures)
    assert [name for name in pictures if not (folder / name).is_file()] == []
    tuned = lines((folder / "tuning.csv").read_text())
    rows = [(row["method"], row["protocol"], row["trials"], row["trial"]) for row in tuned]
    assert rows == [
        (method, protocol, "1", "0")
        for method in ("fedavg", "flis-dc")
        for protocol in ("fine-tuned", "served")
    ]


def test_fine_tuning_changes_what_is_served_and_nothing_else(undisturbed):
    storage, _ = undisturbed
    rows = lines((storage / "grids" / GRID / "outcomes.csv").read_text())
    by_row = {(row["method"], row["settings"], row["protocol"], row["family"]): row for row in rows}
    for method in ("fedavg", "flis-dc"):
        served, tuned = (by_row[method, "tuned", protocol, "iid"] for protocol in ("served", "fine-tuned"))
        assert served["personalised_accuracy"] != tuned["personalised_accuracy"]
        assert [served[name] for name in ("ari", "megabytes")] == [
            tuned[name] for name in ("ari", "megabytes")
        ]


def test_same_command_runs_nothing_again_and_writes_the_same_bytes(undisturbed):
    storage, _ = undisturbed
    folder = storage / "grids" / GRID
    before = {name: (folder / name).read_bytes() for name in ("verdict.md", "outcomes.csv", "tuning.csv")}
    stamps = {path: path.stat().st_mtime_ns for path in configs(storage)}
    result = fedgrid(*SMALL, "--storage", storage)
    assert result.code == 0, result.err
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert {path: path.stat().st_mtime_ns for path in configs(storage)} == stamps


def test_killed_and_continued_arena_ends_the_same(undisturbed, tmp_path, monkeypatch):
    """Eight runs of two rounds tune, then come the rows: killed within the searches, and within the rows."""
    storage = tmp_path / "runs"
    for rounds in (5, 16):
        kill_after(rounds, monkeypatch)
        with pytest.raises(Killed):
            fedgrid(*SMALL, "--storage", storage)
    monkeypatch.undo()
    assert not (storage / "grids" / GRID / "outcomes.csv").exists()
    result = fedgrid(*SMALL, "--storage", storage)
    assert result.code == 0, result.err
    for name in ("verdict.md", "outcomes.csv", "tuning.csv"):
        assert (storage / "grids" / GRID / name).read_bytes() == (
            undisturbed[0] / "grids" / GRID / name
        ).read_bytes()


def test_json_is_an_event_a_line_with_tuned_settings_verdicts_and_notes(undisturbed):
    storage, _ = undisturbed
    result = fedgrid(*SMALL, "--json", "--storage", storage)
    assert result.code == 0, result.err
    tuned = [event["method"] for event in result.events if event["event"] == "tuned"]
    assert tuned == ["flis-dc", "flis-dc", "fedavg", "fedavg"]
    verdicts = [event for event in result.events if event["event"] == "verdict"]
    assert {(each["question"], each["protocol"]) for each in verdicts} == {
        ("serving", protocol) for protocol in ("served", "fine-tuned")
    }
    assert [rival["method"] for rival in verdicts[0]["rivals"]] == ["fedavg"]
    # Two families cannot show any difference.
    assert verdicts[0]["rivals"][0]["shows_from"] is None
    assert result.events[-1]["event"] == "arena"
    assert "no other forms clusters" in result.events[-1]["notes"][0]


def test_false_splits_are_counted_in_families_without_groups(tmp_path):
    result = fedgrid(*SMALL, "--null", "--storage", tmp_path / "runs")
    assert result.code == 0, result.err
    # Of the families that are asked for, the one without groups is left.
    assert re.search(r"flis-dc +[01]/1 ", result.out)


def test_plan_of_what_is_all_kept_has_no_runs(kept_there, tmp_path):
    plan = (*SMALL, "--dry-run", "--storage", tmp_path / "runs")
    refused = fedgrid(*plan, "--track", "x")
    assert (refused.code, "unknown tracker 'x'" in refused.err) == (2, True)
    assert strict_json(fedgrid(*plan, "--json").out)["runs"] == []
    assert "16 rows, 16 of them kept, 0 runs" in " ".join(fedgrid(*plan).out.split())


def test_dry_run_counts_searches_and_rows_and_starts_nothing(tmp_path):
    plan = (*SMALL, "--dry-run", "--storage", tmp_path / "runs")
    result = fedgrid(*plan)
    assert result.code == 0, result.err
    assert "2 searches x 1 trials: 8 runs; 16 rows, 0 of them kept" in " ".join(result.out.split())
    names = [run["run"] for run in strict_json(fedgrid(*plan, "--json").out)["runs"]]
    assert sum("-s900" in name for name in names) == 8 < len(names)
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def kept_there(undisturbed, tmp_path, monkeypatch):
    """Let the package keep the results of the undisturbed run."""
    folder = tmp_path / "kept"
    folder.mkdir()
    for name in ("outcomes.csv", "tuning.csv"):
        (folder / name).write_bytes((undisturbed[0] / "grids" / GRID / name).read_bytes())
    monkeypatch.setattr(stored_results, "FOLDER", folder)
    return folder


def test_with_an_own_method_only_its_rows_are_run(kept_there, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    storage = tmp_path / "runs"
    result = fedgrid(*SMALL, "--with", tmp_path / "mine.py", "--storage", storage)
    assert result.code == 0, result.err
    assert {path.parent.name.split("-")[-3] for path in configs(storage)} == {"mine"}
    assert "mine is undecided with 2 of 2 rivals" in result.out
    assert "16 of 20 rows are results that fedgrid keeps" in result.out


def test_check_computes_kept_results_again_and_finds_them_equal(kept_there, tmp_path):
    storage = tmp_path / "runs"
    result = fedgrid(*SMALL, "--check", 2, "--json", "--storage", storage)
    assert result.code == 0, result.err
    assert len(configs(storage)) == 2
    check = result.events[-1]
    assert (check["event"], check["results"], check["equal"]) == ("check", 2, 2)
    assert check["differences"][0].endswith("the same")


def test_check_says_how_far_a_result_differs(kept_there, tmp_path):
    path = kept_there / "outcomes.csv"
    changed = [
        replace(each, personalised_accuracy=0.987654)
        for each in stored_results.read_results().outcomes.values()
    ]
    path.write_text(to_csv(changed))
    result = fedgrid(*SMALL, "--check", 1, "--storage", tmp_path / "runs")
    assert "personalised_accuracy 0.987654, now" in result.out
    assert "0 of 1 results are the kept ones in every digit" in result.out


def test_check_trains_and_is_no_dry_run(tmp_path):
    result = fedgrid(*SMALL, "--check", 1, "--dry-run", "--storage", tmp_path / "runs")
    assert result.code == 2
    assert "leave out --dry-run" in result.err
    assert not (tmp_path / "runs").exists()


def test_check_without_a_kept_result_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_results, "FOLDER", tmp_path)
    result = fedgrid(*SMALL, "--check", 2, "--storage", tmp_path / "runs")
    assert result.code == 2
    assert "keeps no result of these rows of digits" in result.err


def test_kept_result_of_another_run_or_search_does_not_count(tmp_path):
    (tmp_path / "outcomes.csv").write_text(to_csv([SOME]))
    found = stored_results.read_results(tmp_path)
    assert list(found.outcomes) == [SOME.key]
    assert found.find_settings(("digits", "mine", "served", 8), "0") is None
    assert stored_results.read_results(tmp_path / "nowhere") == StoredResults()


def test_evenly_takes_the_first_and_spreads():
    assert spread_evenly(list(range(10)), 3) == [0, 3, 6]
    assert spread_evenly([1, 2], 5) == [1, 2]
