"""Files of splits: what is read, what is refused, and how a run names them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.data.partition_files import load_partition, read_partition_file
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.grids.presets.load import load_grid

POOL = 1442
"""Images of digits to draw from."""
ROWS = b"client,group\n" + b"".join(b"%d,%s\n" % (row % 3, b"ab"[row % 3 > 0 :][:1]) for row in range(POOL))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(ROWS)
    return path


def run(path, **given):
    return complete_config({"split": {"kind": "file", "path": str(path)}, **given}, path.parent)


@pytest.mark.parametrize(
    "content",
    [ROWS, b"\xef\xbb\xbf" + ROWS.replace(b"\n", b"\r\n"), ROWS.replace(b"0,a", b"0.0,a"), None],
    ids=["csv", "Windows", "floats", "parquet"],
)
def test_every_way_to_write_it_means_the_same(tmp_path, content):
    path = tmp_path / ("mine.csv" if content else "mine.parquet")
    if content:
        path.write_bytes(content)
    else:
        clients = [row % 3 for row in range(POOL)]
        groups = ["b" if client else "a" for client in clients]
        pq.write_table(pa.table({"client": clients, "group": groups}), path)
    assigned = read_partition_file(path, "any")
    assert [len(held) for held in assigned.held_K] == [481, 481, 480]
    assert (assigned.group_K, assigned.group_names) == ((0, 1, 1), ("a", "b"))


def test_an_empty_line_is_an_example_of_nobody(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("client\n0\n\n1\n")
    assigned = read_partition_file(path, "any")
    assert ([held.tolist() for held in assigned.held_K], assigned.num_rows) == ([[0], [2]], 3)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a csv file: Empty CSV file"),
        (b"site,group\n0,a\n", "has no column client, but site, group"),
        (b"client,grp\n0,a\n", "unknown column 'grp'; allowed: client, group, part, example"),
        (b"client,client\n0,1\n", "has the column client twice"),
        (b"client,group\n0,a\n1\n", "is not a csv file: CSV parse error: Row #3"),
        (b"PK\x03\x04\xff\xfe", "is not a csv file, but a zip archive"),
        (b"client\n0\n2\n", "client 1 has no example; number the clients 0, 1, 2, ..., or give them names"),
    ],
    ids=range(7),
)
def test_bad_files_are_refused_in_one_line(tmp_path, content, said):
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_partition_file(path, str(said))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_damaged_parquet_is_refused(tmp_path):
    path = tmp_path / "mine.parquet"
    path.write_bytes(ROWS)
    with pytest.raises(DataError, match="is not a Parquet file"):
        read_partition_file(path, "any")


def test_a_run_has_the_files_clients_groups_and_content_but_not_its_path(file, tmp_path):
    config = run(file)
    assert (config.clients, config.scenario) == (3, "digits-3-file")
    assert str(tmp_path) not in config.canonical_json()
    assert config.own_images == (config.split.path,)
    (tmp_path / "there").mkdir()
    copy = file.rename(tmp_path / "there" / "mine.csv")
    assert run(copy).run_id == config.run_id
    assert complete_config(json.loads(config.canonical_json()), tmp_path).run_id == config.run_id
    setup, truth_K = prepare_setup(config, tmp_path)
    assert truth_K.tolist() == [0, 1, 1]
    assert [client.group for client in setup.clients] == ["a", "b", "b"]
    copy.write_bytes(ROWS.replace(b"a", b"c"))
    assert run(copy).run_id != config.run_id


def test_clients_of_a_grid_are_the_files_where_nobody_names_them(file, tmp_path):
    options = {"split": ["iid", {"kind": "file", "path": str(file)}]}
    runs = load_grid(None, options, [], tmp_path).runs
    assert [run.scenario for run in runs] == ["digits-15-iid", "digits-3-file"]
    with pytest.raises(ValueError, match="clients = 15: mine.csv has 3"):
        load_grid(None, {**options, "clients": 15}, [], tmp_path)


def test_a_stored_run_does_not_take_another_file_of_the_same_name(file, monkeypatch):
    name = run(file).split.path
    file.write_bytes(ROWS.replace(b"a", b"c"))
    with pytest.raises(DataError, match=f"mine.csv is another file than the {name} of this run"):
        load_partition(name)
    file.unlink()
    with pytest.raises(DataError, match="mine.csv cannot be read"):
        load_partition(name)
    monkeypatch.setattr(own_images, "_places", {})
    with pytest.raises(DataError, match="not known here; .* split.path=PATH"):
        load_partition(name)


def test_an_index_is_no_column_and_lists_are_no_clients(tmp_path):
    (tmp_path / "mine.csv").write_text(",client\n0,a\n1,b\n")
    assert read_partition_file(tmp_path / "mine.csv", "index").client_names == ("a", "b")
    pq.write_table(pa.table({"client": [["a"], ["b"]]}), tmp_path / "mine.parquet")
    with pytest.raises(DataError, match="column client has list<.*; write numbers or texts there"):
        read_partition_file(tmp_path / "mine.parquet", "lists")
