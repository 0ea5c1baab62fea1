"""A bundle that was changed, or never was one, is refused in one line that names what is wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyarrow as pa
import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.bundles import read_bundle
from fedgrid.grids.bundles.layout import MANIFEST, STORAGE, write_zip
from fedgrid.grids.bundles.read_bundle import open_bundle
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.manifest import read_manifest
from fedgrid.sealed_json import seal_values, unseal_text
from tests.helpers.bundles import edit_bundle, find_run, forge_table, make_bundle
from tests.helpers.command_line import fedgrid


def refusal(path: Path) -> str:
    """Return why a bundle is refused."""
    with pytest.raises(ConfigError) as refused, open_bundle(path):
        pass
    assert "\n" not in str(refused.value)
    assert "/fedgrid-bundle-" not in str(refused.value)
    return str(refused.value)


def first(folder: Path) -> Path:
    """Return the folder of the first run in that of a bundle."""
    return find_run(folder, "digits", "fedavg", 0)[1]


def in_record(folder: Path) -> None:
    path = first(folder) / "rounds.parquet"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)


def in_digest(folder: Path) -> None:
    path = folder / MANIFEST
    text = path.read_text()
    start = text.index('"sha256"') + 12
    path.write_text(text[:start] + ("0" if text[start] != "0" else "1") + text[start + 1 :])


def in_plugin(folder: Path) -> None:
    [path] = folder.glob("storage/grids/mine/plugins/*.py")
    path.write_text(path.read_text() + "# One line more.\n")


def in_configuration(folder: Path) -> None:
    path = first(folder) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seed": 1}))


def further_file(folder: Path) -> None:
    (folder / "report" / "tables" / "further.md").write_text("")


def missing_file(folder: Path) -> None:
    (folder / "environment.txt").unlink()


def missing_record(folder: Path) -> None:
    (first(folder) / "clients.parquet").unlink()


def no_rows(folder: Path) -> None:
    forge_table(first(folder), "rounds", lambda table: table.slice(0, 0))


def one_client_fewer(folder: Path) -> None:
    forge_table(first(folder), "clients", lambda table: table.slice(0, 7))


def missing_plugin(folder: Path) -> None:
    [path] = folder.glob("storage/grids/mine/plugins/*.py")
    path.unlink()


def run_listed_twice(folder: Path) -> None:
    grid = GridFolder(Storage.from_text(folder / STORAGE), "mine")
    stored = grid.read_definition()
    grid._write_runs(replace(stored, runs=(*stored.runs, stored.runs[0])))


def escape_in_title(folder: Path) -> None:
    path = folder / "storage/grids/mine/plugins.json"
    [(digest, entry)] = unseal_file(path).items()
    path.write_text(seal_values({digest: {**entry, "titles": {"own": "\x1b[2J"}}}))


def escape_in_table(folder: Path) -> None:
    place = first(folder)

    def change(table: pa.Table) -> pa.Table:
        column = table.column_names.index("part")
        return table.set_column(column, "part", pa.array(["\u202e"] * len(table)))

    forge_table(place, "clients", change)


def other_layout(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(path.read_text().replace('"layout": 2', '"layout": 3'))


def manifest_with_another_file(folder: Path) -> None:
    place = first(folder)
    manifest = read_manifest(place)
    entry = manifest.files["config.json"]
    (place / "manifest.json").write_text(manifest.with_files({"../../secret": entry}).to_text())


def manifest_with_a_number_for_files(folder: Path) -> None:
    place = first(folder)
    text = (place / "manifest.json").read_text()
    (place / "manifest.json").write_text(seal_values({**unseal_text(text), "states": {"2": 5}}))


@pytest.mark.parametrize(
    ("change", "listed", "named"),
    [
        (in_record, False, ["rounds.parquet", "bundle.json"]),
        (in_record, True, ["digits-4-nonoverlapping-balanced-fedavg-s0", "rounds.parquet"]),
        (in_digest, False, ["bundle.json", "checksum"]),
        (in_plugin, True, ["plugin", ".py", "changed"]),
        (in_configuration, True, ["config.json"]),
        (missing_record, True, ["digits-4-nonoverlapping-balanced-fedavg-s0"]),
        (no_rows, True, ["b.zip: digits-4-nonoverlapping-balanced-fedavg-s0", "rounds.parquet has no rows"]),
        (one_client_fewer, True, ["nonoverlapping-balanced-fedavg-s0", "clients.parquet has 7 rows, not 8"]),
        (missing_plugin, True, ["own.py"]),
        (run_listed_twice, True, ["claims 9"]),
        (further_file, False, ["report/tables/further.md", "bundle.json"]),
        (missing_file, False, ["environment.txt", "missing"]),
        (escape_in_title, True, ["grids/mine/plugins.json", "control characters"]),
        (escape_in_table, True, ["clients.parquet", "control characters"]),
        (manifest_with_another_file, True, ["manifest.json does not list the files of this run"]),
        (manifest_with_a_number_for_files, True, ["manifest.json does not list the files of this run"]),
        (other_layout, False, ["another fedgrid", "layout 3"]),
    ],
)
def test_change_is_named(
    bundle: Path, tmp_path: Path, change: Callable[[Path], None], listed: bool, named: list[str]
) -> None:
    """Also where somebody has written the list anew, but for the marks of the runs."""
    with edit_bundle(bundle, tmp_path / "b.zip", listed=listed) as folder:
        change(folder)
    said = refusal(tmp_path / "b.zip")
    assert [word for word in named if word not in said] == [], said


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "/evil.txt", "storage/../../evil", "storage\\evil", "images.json", "a/", "log.txt"],
)
def test_name_that_no_bundle_has_is_refused(bundle: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(bundle.read_bytes())
    with ZipFile(path, "a") as archive:
        archive.writestr(name, "")
    assert repr(name) in refusal(path)


def test_no_zip_second_file_link_and_size_are_refused(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.zip"
    assert refusal(path).startswith(f"no file {path}")
    path.write_text("hello")
    assert "not a zip file" in refusal(path)
    path.write_bytes(bundle.read_bytes()[:-2000])
    assert "no bundle" in refusal(path)
    path.write_bytes(bundle.read_bytes())
    with pytest.warns(UserWarning, match="README"), ZipFile(path, "a") as archive:
        archive.writestr("README.md", "")
    assert refusal(path).startswith(f"{path} has two files 'README.md'")
    path.write_bytes(bundle.read_bytes())
    with ZipFile(path, "a") as archive:
        archive.writestr("readme.MD", "")
    assert refusal(path).startswith(f"{path} has two files 'README.md'")
    (tmp_path / "empty").mkdir()
    write_zip(tmp_path / "empty", path)
    with ZipFile(path, "a") as archive:
        archive.writestr(MANIFEST, "")
        link = ZipInfo("README.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "README.md is a link" in refusal(path)
    write_zip(tmp_path / "empty", path)
    with ZipFile(path, "a", ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, " " * 10**6)
    assert "would take 1,000,000" in refusal(path)
    monkeypatch.setattr(read_bundle, "measure_free_space", lambda: 10**5)
    assert "100,000" in refusal(bundle)
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize(
    ("place", "named"),
    [("before the files", "b.zip has 21,47"), ("in a file", "README.md has 21,474,836,480 bytes")],
)
def test_large_sparse_zip_is_refused_by_its_list_of_files(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, named: str
) -> None:
    """Of 20 GB of zeros nothing is read."""
    path, size = tmp_path / "b.zip", 20 << 30
    with path.open("wb") as file:
        if place == "before the files":
            file.seek(size)
            file.write(bundle.read_bytes())
        else:
            with ZipFile(file, "w") as archive:
                archive.writestr(MANIFEST, "")
                with archive.open("README.md", "w", force_zip64=True) as member:
                    # As if that many zeros had been written.
                    member._file_size = member._compress_size = size  # type: ignore[attr-defined]
                    file.seek(size, 1)
    monkeypatch.setattr(read_bundle, "compute_checksum", None)
    monkeypatch.setattr(read_bundle, "_extract_file", None)
    assert named in refusal(path)


def test_model_other_than_that_of_its_run_is_refused(home: Path, tmp_path: Path) -> None:
    """Its size is right, and the bundle lists it."""
    chosen = ("--models", "--where", "algorithm=fedavg,seed=0")
    with edit_bundle(make_bundle(home / "runs", tmp_path / "a.zip", *chosen), tmp_path / "b.zip") as folder:
        path = first(folder) / "state-000002.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    said = refusal(tmp_path / "b.zip")
    assert "digits-4-nonoverlapping-balanced-fedavg-s0: state-000002.safetensors" in said


def test_data_named_by_a_path_are_refused(bundle: Path) -> None:
    """Somebody else's file would say which of mine is read."""
    with open_bundle(bundle) as true:
        run = true.runs[0].model_copy(update={"dataset": "csv:/etc/passwd#label=x"})
    with pytest.raises(ConfigError, match="csv:/etc/passwd"):
        read_bundle.check_paths(bundle, run)


def test_a_run_that_stopped_early_has_the_rounds_that_its_mark_says(tmp_path: Path) -> None:
    """At a rate at which nothing is learned it stops after the second of nine rounds."""
    length = ("training.rounds=9", "training.stop_after=1")
    few = ("split.scored_on=validation", "training.learning_rate=1e-9", "--clients", 4)
    at = ("--storage", tmp_path / "runs")
    run = fedgrid("run", *length, *few, "--algorithm", "fedavg", "--name", "mine", "--in-process", *at)
    assert "stopped after round 2 of 9" in run.out, run.err
    with open_bundle(make_bundle(tmp_path / "runs", tmp_path / "mine.zip")) as bundle:
        assert len(bundle.scores) == 1
