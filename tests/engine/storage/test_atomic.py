"""Temporary files that killed writers left: deleted, unless they may still be written."""

import os

from fedgrid.engine.storage.atomic import ABANDONED_AFTER, PARTIAL, delete_abandoned, delete_partial


def test_files_of_killed_writers_are_deleted_anywhere_below(tmp_path):
    now = 5_000_000.0
    ages = {
        f"store/trunk/000001-ab-mean.safetensors{PARTIAL}12-ab": ABANDONED_AFTER + 1,
        f"grids/paper/progress.json{PARTIAL}12-ab": 1e6,
        "store/trunk/.tmpRHEuWI": ABANDONED_AFTER + 1,
        f"grids/paper/runs.jsonl{PARTIAL}12-ab": ABANDONED_AFTER - 1,
        f"grids/paper/stop{PARTIAL}12-ab": -60,
        "grids/paper/runs.jsonl": 1e6,
    }
    for name, age in ages.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
        os.utime(path, (now - age, now - age))
    delete_abandoned(tmp_path / "store", now)
    delete_abandoned(tmp_path / "grids", now)
    delete_abandoned(tmp_path / "missing", now)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(list(ages)[3:])


def test_files_of_killed_writers_in_a_folder_are_deleted(tmp_path):
    for name in (f"rounds.parquet{PARTIAL}1-ab", ".tmpRHEuWI", "rounds.parquet"):
        (tmp_path / name).write_text("text")
    delete_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.parquet"]
