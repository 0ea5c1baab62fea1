"""Tables of the user's own: what is read of them, what is refused and what is only noted."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fedgrid.engine.federation.data.names import shorten_name
from fedgrid.engine.federation.data.tables.examples import open_table
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data import own_data
from fedgrid.engine.runtime.data.datasets import digest_pair, find_dataset, load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup

HEADER = "a,b,label"
ROWS = [f"{row % 7},{row * 0.5},{'xy'[row % 3 == 0]}" for row in range(40)]


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a table and returns how a run names it."""

    def write(*rows, header=HEADER, end="\n", mark="", encoding="utf-8"):
        (tmp_path / "t.csv").write_text(end.join([header, *rows]), encoding, newline="")
        return f"csv:{tmp_path}/t.csv{mark}"

    return write


def before(names, values):
    """Return rows and header with columns more in front."""
    return [f"{value},{row}" for value, row in zip(values, ROWS, strict=True)], f"{names},{HEADER}"


def test_rows_are_numbers_and_classes_sorted(table, tmp_path):
    rows, header = before("test", [row % 5 == 0 for row in range(40)])
    name = table(*rows, header=header)
    pool, test = load_dataset(name, tmp_path)
    assert pool.images[:2].tolist() == [[1.0, 0.5], [2.0, 1.0]]
    assert (pool.labels[:3].tolist(), find_dataset(name, tmp_path).class_names) == ([0, 0, 1], ("x", "y"))
    assert (pool.images.dtype, test.images[:, 1].tolist()) == (np.float32, [2.5 * row for row in range(8)])


@pytest.mark.parametrize(
    "written",
    [
        {"end": "\r\n"},
        {"encoding": "utf-8-sig"},
        {"header": "a;b;label", "rows": [row.replace(",", ";") for row in ROWS]},
        {"header": "a,b,y", "mark": "#label=y"},
    ],
    ids=["Windows", "byte-order mark", "semicolons", "named"],
)
def test_every_way_to_write_it_means_the_same(table, tmp_path, written):
    plain = load_dataset(table(*ROWS), tmp_path)
    other = load_dataset(table(*written.pop("rows", ROWS), **written), tmp_path)
    for one, two in zip(plain, other, strict=True):
        assert (one.images.tobytes(), one.labels.tolist()) == (two.images.tobytes(), two.labels.tolist())


BAD = {
    "NaN": (dict(rows=["NaN,1,x", *ROWS]),
            "row 1 has 'NaN' in column a, which stands for a missing value .*; #fill=mean"),
    "no label": (dict(rows=[*ROWS, "1,1,"]), "row 41 .* no value in column label"),
    "no column label": (dict(header="a,b,y"), "has no column label, but a, b, y; .*#label=y"),
    "named": (dict(mark="#label=y"), "has no column y, but a, b, label"),
    "option": (dict(mark="#lable=b"), "unknown option 'lable=b'; allowed: label=COLUMN, .*fill=mean"),
    "size": (dict(mark="#64"), "only folders are scaled; leave out #64x64"),
    "share": (dict(mark="#test=1.5"), r"test = 1.5; expected a share, as in #test=0.2"),
    "empty": (dict(rows=[], header=""), "is not a csv file: Empty CSV file"),
    "no row": (dict(rows=[""]), "has no row, only columns"),
    "twice": (dict(header="a,a,label"), "has the column a twice"),
    "one class": (dict(rows=["1,2,x", "2,3,x"]), "column label has one class, x"),
    "id": (dict(header="name,b,label", rows=[f"p{i},{row[2:]}" for i, row in enumerate(ROWS)]),
           "column name has 40 different values in 40 rows .*an id; .*#drop=name"),
    "stray": (dict(rows=[f"{i}{row[1:]}" for i, row in enumerate(ROWS)] + ["abc,1,x"]),
              "row 41 has 'abc' in column a, and other rows have numbers; .*#fill=mean.*#drop=a"),
    "comma": (dict(header="a;b;label", rows=["1,5;2;x", "2,5;3;y"] * 2), "column a has 1,5, a number"),
    "infinite": (dict(rows=["1e300,1,x", *ROWS]), "row 1 has 1e.300 in column a; write at most 3.4e38"),
    "measured": (dict(header="label,b,a", rows=[f"{i}.{i}1{row[1:]}" for i, row in enumerate(ROWS)]),
                 "column label has 40 different values .*; name the column of the classes"),
    "mark": (dict(header="test,b,label"), "row 3 has '2' in column test; allowed: true, 1, yes"),
    "client": (dict(header="client,b,label", rows=[*ROWS, ",1,x", ",1,x", ",1,x"]),
               "row 4. .* no value in column client"),
    "nothing": (dict(header="client,group,label"), "has no column to learn from"),
}  # fmt: skip


@pytest.mark.parametrize(("written", "said"), BAD.values(), ids=BAD)
def test_bad_tables_are_refused_in_one_line(table, tmp_path, written, said):
    with pytest.raises((DataError, ConfigError), match=said) as refused:
        find_dataset(table(*written.pop("rows", ROWS), **written), tmp_path)
    assert "\n" not in str(refused.value)


def test_a_file_beyond_memory_a_folder_and_none_are_refused(tmp_path):
    with (tmp_path / "t.csv").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DataError, match=r"t.csv: its data take 4398.0 GB, and this machine has"):
        find_dataset(f"csv:{tmp_path}/t.csv", tmp_path)
    with pytest.raises(DataError, match="is not a file; expected a csv or Parquet file there"):
        find_dataset(f"csv:{tmp_path}", tmp_path)
    with pytest.raises(DataError, match="none.csv cannot be read: No such file"):
        find_dataset(f"csv:{tmp_path}/none.csv", tmp_path)


def test_texts_are_one_hot_by_the_pool_and_gaps_are_filled(table, tmp_path):
    rows = ["0,Rome,1,x", "0,,3,y", "0,Bonn,,x", "1,Oslo,5,x", "1,Rome,6,y"]
    name = table(*rows, header="test,city,n,label", mark="#fill=mean")
    pool, test = load_dataset(name, tmp_path)
    assert pool.images.tolist() == [[0, 1, 1], [0, 0, 3], [1, 0, 2]]
    assert test.images.tolist() == [[0, 0, 5], [0, 1, 6]]
    assert [note.partition(": ")[2] for note in find_dataset(name, tmp_path).notes] == [
        "Oslo in column city is in test rows only, and counts as none of its texts",
        "each text of a column becomes a column: city (2)",
    ]


def test_the_drawn_test_set_is_stratified_and_keeps_subjects_whole(table, tmp_path):
    """The classes have 26 and 14 rows: a fifth, rounded up, is 6 and 3."""
    name = table(*ROWS)
    _, test = load_dataset(name, tmp_path)
    assert np.bincount(test.labels).tolist() == [6, 3]
    assert "9 of 40 rows are drawn as the server's test set" in find_dataset(name, tmp_path).notes[0]
    rows, header = before("subject", [row // 4 for row in range(40)])
    pool, test = load_dataset(table(*rows, header=header, mark="#test=0.4"), tmp_path)
    subjects = [set((part.images[:, 1] // 2).tolist()) for part in (pool, test)]
    assert (len(subjects[1]), subjects[0] & subjects[1]) == (4, set())
    rows, header = before("subject,test", [f"{row // 4},{row % 2}" for row in range(40)])
    with pytest.raises(DataError, match="subject 0 has rows in the server's test set and in the pool"):
        find_dataset(table(*rows, header=header), tmp_path)


def test_a_client_column_is_the_partition_and_groups_are_of_clients(table, tmp_path):
    rows, header = before(
        "site,group", [f"s{row % 3},{'north' if row % 3 else 'south'}" for row in range(40)]
    )
    name = table(*rows, header=header, mark="#client=site")
    config = complete_config({"dataset": name}, tmp_path)
    assert (config.clients, config.split.kind, config.model) == (3, "file", "mlp")
    assert config.dataset.startswith("csv:t.csv#client=site@")
    setup, truth_K = prepare_setup(config, tmp_path)
    assert truth_K.tolist() == [1, 0, 0]
    assert [client.group for client in setup.clients] == ["south", "north", "north"]
    assert (
        complete_config({"dataset": name, "split": "natural", "clients": 2}, tmp_path).split.kind == "natural"
    )
    assert complete_config({"dataset": table(*ROWS)}, tmp_path).split.kind == "iid"


def test_a_share_of_an_npz_file_without_tests_is_drawn_as_of_a_table(table, tmp_path):
    labels = np.array([row[-1] == "y" for row in ROWS], np.int64)
    rows = np.array([row.split(",")[:2] for row in ROWS], np.float32)
    np.savez(tmp_path / "t.npz", train_images=rows, train_labels=labels, train_client=np.arange(40) % 4)
    with pytest.raises(DataError, match="has no 'test_images'; .* #test=0.2 draws a test set"):
        find_dataset(f"npz:{tmp_path}/t.npz", tmp_path)
    drawn = load_dataset(f"npz:{tmp_path}/t.npz#test=0.2", tmp_path)
    for one, two in zip(drawn, load_dataset(table(*ROWS), tmp_path), strict=True):
        assert (one.images.tolist(), one.labels.tolist()) == (two.images.tolist(), two.labels.tolist())
    assert complete_config({"dataset": f"npz:{tmp_path}/t.npz#test=0.5"}, tmp_path).clients == 4


def test_another_client_column_is_another_digest(table, tmp_path):
    digests = set()
    for sites in (3, 4):
        rows, header = before("client", [row % sites for row in range(40)])
        digests.add(digest_pair(load_dataset(table(*rows, header=header), tmp_path)))
    assert len(digests) == 2


def test_classes_that_are_not_everywhere_are_named(table, tmp_path):
    rows, header = before("test,client", [f"{int(row % 4 == 0)},{row % 3}" for row in range(40)])
    rows = [*rows, "0,2,1,1,alone", "1,2,1,1,tested"]
    name = table(*rows, header=header)
    notes = [note.partition(": ")[2] for note in find_dataset(name, tmp_path).notes]
    assert notes == [
        "no training row has the label tested",
        "no test row has the label alone",
        "one client alone has the label alone, y",
    ]
    config = complete_config({"dataset": name}, tmp_path)
    assert prepare_setup(config, tmp_path)[0].num_classes == 4
    with pytest.raises(ConfigError, match="the pool has no example of class 1"):
        prepare_setup(complete_config({"dataset": name, "split": "overlapping-balanced"}, tmp_path), tmp_path)


def test_arrays_of_clients_are_the_partition_too(tmp_path):
    parts = {"images": np.ones((6, 2), np.float32), "labels": np.arange(6) % 2}
    arrays = {f"{part}_{what}": array for part in ("train", "test") for what, array in parts.items()}
    path = tmp_path / "t.npz"
    np.savez(path, **arrays, train_client=[3, 3, 3, 7, 7, 7])
    config = complete_config({"dataset": f"npz:{path}"}, tmp_path)
    assert (config.clients, config.split.kind) == (2, "file")
    assert [
        len(client.train) + len(client.test) for client in prepare_setup(config, tmp_path)[0].clients
    ] == [3, 3]
    np.savez(path, **arrays, train_client=["", "a", "a", "", "b", "b"])
    assert "2 examples, which have no client" in find_dataset(f"npz:{path}", tmp_path).notes[0]
    np.savez(path, **arrays, train_client=[3, 3])
    with pytest.raises(DataError, match=r"train_client is int64 of shape \(2,\); expected a whole number"):
        find_dataset(f"npz:{path}", tmp_path)


def test_a_share_of_a_flat_folder_is_drawn(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "cats" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (2, 2), 10 * number).save(tmp_path / "cats" / name / f"{number}.png")
    with pytest.raises(DataError, match="train is missing"):
        find_dataset(f"folder:{tmp_path}/cats", tmp_path)
    dataset = find_dataset(f"folder:{tmp_path}/cats#4,test=0.3", tmp_path)
    pool, test = load_dataset(dataset.name, tmp_path)
    assert (dataset.class_names, shorten_name(dataset.name)) == (("ant", "bee"), "folder_cats-4x4")
    assert (np.bincount(pool.labels).tolist(), np.bincount(test.labels).tolist()) == ([3, 3], [2, 2])


def test_a_table_is_opened_once_for_what_is_known_and_for_its_rows(table, tmp_path, monkeypatch):
    """And again for rows that are read a second time, and once the file is replaced."""
    opened = []
    monkeypatch.setattr(own_data, "open_table", lambda *given: opened.append(given) or open_table(*given))
    name = table(*ROWS)
    assert find_dataset(name, tmp_path).pool_size == len(load_dataset(name, tmp_path)[0])
    assert len(opened) == 1
    load_dataset(name, tmp_path)
    assert len(opened) == 2
    table(*ROWS, *ROWS)
    find_dataset(name, tmp_path)
    assert len(opened) == 3


def test_the_same_numbers_are_the_same_data_in_every_format(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    columns = {**{f"x{at}": rows[:, at] for at in range(3)}, "label": np.arange(60) % 3}
    columns["test"] = np.arange(60) % 5 == 0
    np.savez(
        tmp_path / "t.npz",
        **{
            f"{part}_images": rows[columns["test"] == is_test]
            for part, is_test in (("train", 0), ("test", 1))
        },
        **{
            f"{part}_labels": columns["label"][columns["test"] == is_test]
            for part, is_test in (("train", 0), ("test", 1))
        },
    )
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    lines = [",".join(str(column[row]) for column in columns.values()) for row in range(60)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(columns), *lines]))
    given = {"split": "dirichlet", "clients": 3}
    runs = [
        complete_config({**given, "dataset": f"{kind}:{tmp_path}/t.{kind}"}, tmp_path)
        for kind in ("npz", "csv", "parquet")
    ]
    assert (
        len({run.root_seed for run in runs})
        == len({digest_pair(load_dataset(run.dataset, tmp_path)) for run in runs})
        == 1
    )
