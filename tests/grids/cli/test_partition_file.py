"""What `fedgrid data --export` writes, split `file` deals out again."""

import pytest
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.prepare import find_partition, prepare_setup
from fedgrid.grids.cli.actions.scenario import show_scenario


def export(config, path):
    show_scenario(config, path.parent, None, path, None, True, Console())


@pytest.mark.parametrize(
    ("split", "suffix", "columns"),
    [
        ("iid", "csv", "client,part"),
        ("nonoverlapping-balanced", "csv", "example,client,group,part"),
        ({"kind": "overlapping-balanced", "test_leakage": "published"}, "parquet", ""),
        ({"kind": "label-skew", "tested_on": "official"}, "csv", "client,group"),
    ],
    ids=str,
)
def test_exported_file_gives_the_same_examples(tmp_path, capsys, split, suffix, columns):
    before = complete_config({"split": split, "clients": 6}, tmp_path)
    path = tmp_path / f"mine.{suffix}"
    export(before, path)
    if columns:
        assert path.read_text().partition("\n")[0] == columns
    same = {"tested_on": before.split.tested_on, "test_leakage": before.split.test_leakage}
    after = complete_config({"split": {"kind": "file", "path": str(path), **same}}, tmp_path)
    one, other = find_partition(before, tmp_path, 0), find_partition(after, tmp_path, 0)
    for was, now in ((one.train_K, other.train_K), (one.test_K, other.test_K)):
        assert [positions.tolist() for positions in was] == [positions.tolist() for positions in now]
    assert prepare_setup(before, tmp_path)[1].tolist() == prepare_setup(after, tmp_path)[1].tolist()


def test_splits_that_change_images_are_not_exported(tmp_path):
    with pytest.raises(ConfigError, match="--export: split rotated changes images .* export one of: .*iid"):
        export(complete_config({"split": "rotated"}, tmp_path), tmp_path / "mine.csv")
    assert not (tmp_path / "mine.csv").exists()
