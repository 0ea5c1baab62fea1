"""Runs of a bundle in a storage, and beside a grid's own."""

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from fedgrid import load
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.grids.bundles.layout import MANIFEST
from fedgrid.grids.results.outcome import SCORES
from fedgrid.sealed_json import seal_values
from tests.helpers.bundles import RUNS, edit_bundle, find_run, forge_table
from tests.helpers.command_line import fedgrid
from tests.helpers.undrawn import skip_drawing


@pytest.fixture
def imported(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a storage with the bundle's runs, in the current folder, whose grid file is the author's."""
    monkeypatch.chdir(tmp_path)
    result = fedgrid("import", bundle, "--name", "theirs")
    assert result.code == 0, result.err
    assert f"{RUNS} runs imported" in result.out
    return tmp_path / "runs"


def test_imported_runs_are_used_only_where_asked_for_and_are_marked(home: Path, imported: Path) -> None:
    assert f"{RUNS} were there already" in fedgrid("import", home / "mine.zip", "--name", "theirs").out
    run = ("run", home / "mine.yaml", "--in-process", "--where", "dataset=digits")
    refused = fedgrid(*run)
    assert refused.code == 2
    assert "--imported theirs" in refused.err
    result = fedgrid(*run, "--imported", "theirs")
    assert result.code == 0, result.err
    assert "imported as theirs, and not computed here: 4 runs" in result.err
    assert "starts" not in result.out
    assert "imported as theirs" in load("mine", "runs").notes[0]
    assert "imported as theirs" in fedgrid("table", "mine").err
    taken = fedgrid("import", home / "mine.zip", "--name", "mine")
    assert taken.code == 2
    assert "--name" in taken.err


def test_imported_runs_are_not_computed_again_but_imported(home: Path, imported: Path) -> None:
    """One is damaged, then another bundle has it with another number."""
    with edit_bundle(home / "mine.zip", Path("forged.zip")) as folder:
        run, place = find_run(folder, "digits", "fedavg", 0)
        forge_table(place, "clients", lambda table: table.drop_columns(["train_loss"]))
    (imported / place.name / "rounds.parquet").write_bytes(b"")
    refused = fedgrid("run", home / "mine.yaml", "--in-process", "--imported", "theirs")
    assert refused.code == 2
    assert f"{run.name} was imported as theirs" in refused.err
    assert "1 runs imported" in fedgrid("import", home / "mine.zip", "--name", "theirs").out
    other = fedgrid("import", "forged.zip", "--name", "others")
    assert f"1 runs, such as {run.name}, are here with other records" in other.err


def test_scores_are_computed_from_the_records(bundle: Path, tmp_path: Path) -> None:
    """A bundle of another version has a score that nobody knows, another value, and lacks one."""
    with edit_bundle(bundle, tmp_path / "forged.zip") as folder:
        (folder / MANIFEST).write_text(seal_values({**unseal_file(folder / MANIFEST), "fedgrid": "0.0.9"}))
        run, place = find_run(folder, "digits", "fedavg", 0)
        scores = unseal_file(place / SCORES)
        (place / SCORES).write_text(seal_values({**scores, "won": 0.99, "ari": 0.98, "ami": None}))
    storage = ("--storage", tmp_path / "runs")
    result = fedgrid("import", tmp_path / "forged.zip", "--name", "forged", *storage)
    assert result.code == 0, result.err
    assert [word for word in (f"1 of {RUNS}", "ami", "ari", "won") if word not in result.err] == []
    for words in (f"rounds.parquet ({RUNS})", "report/tables/*.csv", "fedgrid bundle check"):
        assert words in result.out
    assert unseal_file(tmp_path / "runs" / place.name / SCORES) == scores
    unknown = fedgrid("table", "forged", "--score", "won", *storage)
    assert (unknown.code, "no score 'won'" in unknown.err) == (2, True)


def test_second_import_changes_nothing_whoever_computed_the_runs(home: Path, imported: Path) -> None:
    """Under a further name; beside one's own runs, which stay; and after one that was killed at a run."""
    for count in (0, 0):
        again = fedgrid("import", home / "mine.zip", "--name", "others")
        assert (again.code, f"others: {count} runs imported, {RUNS} were there" in again.out) == (0, True)
    copytree(home / "runs", "own")
    before = {path: path.read_bytes() for path in Path("own").glob("*-*/*")}
    for _ in range(2):
        again = fedgrid("import", home / "mine.zip", "--name", "theirs", "--storage", "own")
        assert (again.code, f"0 runs imported, {RUNS} were there" in again.out) == (0, True)
    assert {path: path.read_bytes() for path in Path("own").glob("*-*/*")} == before
    own = fedgrid("import", home / "mine.zip", "--name", "mine", "--storage", "own")
    assert (own.code, "--name" in own.err) == (2, True)
    place = next(imported.glob("digits*"))
    rmtree(place)
    place.mkdir()
    assert "1 runs imported" in fedgrid("import", home / "mine.zip", "--name", "theirs").out


def test_bundle_compares_with_a_grid_of_any_storage(home: Path, imported: Path, bundle: Path) -> None:
    with skip_drawing():
        result = fedgrid("report", "theirs", "--against", bundle)
    assert result.code == 0, result.err
    for other in (bundle, home / "runs" / "grids" / "mine"):
        table = fedgrid("table", "theirs", "--against", other)
        assert "4 pairs of scenario and algorithm, 8 pairs of runs" in " ".join(table.out.split())
    assert "beside" in (imported / "grids" / "theirs" / "report" / "index.html").read_text()
