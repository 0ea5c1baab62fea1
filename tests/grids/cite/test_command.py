"""`fedgrid cite` as typed: a preset, a YAML file, a grid of a storage."""

from importlib.metadata import version

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cite.references import ENTRY_KEY
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid
from tests.helpers.plugin_files import ALGORITHM
from tests.helpers.small_runs import config, play


def cite(what, root, *options):
    result = fedgrid("cite", str(what), "--storage", root, *options)
    assert (result.code, result.err) == (0, "")
    return result.out


def test_preset_prints_its_settings_and_a_bibtex_file(tmp_path):
    """BibTeX skips text between entries: an @ there would begin one."""
    out = cite("quickstart", tmp_path / "none")
    text, *entries = out.split("\n\n")
    assert text.startswith("% 7 runs: dataset digits; split nonoverlapping-balanced; clients 15; seed 0; ")
    assert "Trained: digitnet, sgd, learning rate 0.1" in text
    assert not {"@", "\n"} & {*text}
    assert f"torch {version('torch')}" in text
    assert [ENTRY_KEY.findall(entry)[0] for entry in entries][-2:] == ["alpaydin1998optical", "fedgrid"]
    assert not (tmp_path / "none").exists()


def test_plugin_of_a_file_is_cited_by_its_entry(tmp_path):
    (tmp_path / "own.py").write_text(ALGORITHM)
    (tmp_path / "mine.yaml").write_text("plugins: [own.py]\nalgorithm: [own, solo]\n")
    out = cite(tmp_path / "mine.yaml", tmp_path / "none")
    assert "algorithm own, solo" in out
    assert "% Without a citation here: OWN (ours); SOLO (no federation)." in out


def test_grid_of_the_storage_comes_before_a_preset_and_names_what_made_it(tmp_path, monkeypatch):
    run = config("briggs")
    play(run, tmp_path)
    GridFolder(Storage.from_text(tmp_path), "quickstart").keep([run], "", "options")
    monkeypatch.setattr("fedgrid.grids.cli.actions.cite.find_versions", None)
    out = cite("quickstart", tmp_path)
    assert out.startswith("% 1 run: ")
    assert "briggs2020federated" in out
    assert f"torch {version('torch')}" in out


def test_unknown_name_is_refused_in_one_line(tmp_path):
    result = fedgrid("cite", "quickstrt", "--storage", tmp_path / "none")
    assert (result.code, result.out) == (2, "")
    assert "quickstart" in result.err


def test_imported_runs_are_not_ours_to_cite(tmp_path):
    run = config().model_copy(update={"model": "archive-cnn"})
    GridFolder(Storage.from_text(tmp_path), "archive").keep([run], "", "archive")
    result = fedgrid("cite", "archive", "--storage", tmp_path)
    assert result.code == 2
    assert "`fedgrid cite paper`" in result.err
