"""Files as other programs write them: read as they are meant, or refused in a line that names the cause."""

import gzip
import pickle
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.data.datasets import find_dataset, load_dataset
from fedgrid.engine.runtime.data.tables import read_table

NUMBERS = [[row * 0.5, row % 7] for row in range(40)]
LABELS = ["xy"[row % 3 == 0] for row in range(40)]
COLUMNS = {"a": [a for a, _ in NUMBERS], "b": [b for _, b in NUMBERS], "label": LABELS}


def lines(mark=",", names="a,b,label", **more):
    """Return a table as text, with columns more in front."""
    rows = zip(*more.values(), COLUMNS["a"], COLUMNS["b"], LABELS, strict=True)
    header = mark.join([*more, *names.split(",")])
    return "\n".join([header, *(mark.join(map(str, row)) for row in rows)])


def write(tmp_path, content, name="t.csv"):
    """Return what a user calls a file with this content."""
    kind = name.rpartition(".")[2]
    if isinstance(content, dict):
        pq.write_table(pa.table(content), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"{kind}:{tmp_path}/{name}"


def make_rows(name, tmp_path):
    """Return all rows of a data set, sorted, and what is noted but for the drawn test set."""
    pool, test = load_dataset(name, tmp_path)
    rows = sorted([*pool.images.tolist(), *test.images.tolist()])
    return rows, [note.partition(": ")[2] for note in find_dataset(name, tmp_path).notes[1:]]


PLAIN = {
    "a comma in a header of semicolons": lines(";").replace("a;", "weight, kg;"),
    "a comma in a header of tabs": lines("\t").replace("b\t", "b, of c\t"),
    "a quoted comma": lines().replace("a,", '"a,b;c",'),
    "bars": lines("|"),
    "Excel's line": "sep=;\r\n" + lines(";"),
}


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_what_stands_between_columns_is_found(tmp_path, content):
    assert make_rows(write(tmp_path, content), tmp_path) == (sorted(NUMBERS), [])


def indexed(name):
    table = pa.table({**COLUMNS, name: range(40)})
    about = b'{"index_columns": ["%s"], "columns": []}' % name.encode()
    return table.replace_schema_metadata({b"pandas": about})


@pytest.mark.parametrize("names", [[""], ["Unnamed: 0"], ["Unnamed: 0.1", "Unnamed: 0", ""]], ids=str)
def test_nothing_is_learned_from_the_index_of_a_csv_file(tmp_path, names):
    content = lines(**dict.fromkeys(names, range(40)))
    rows, [note] = make_rows(write(tmp_path, content), tmp_path)
    assert rows == sorted(NUMBERS)
    assert "nothing is learned from the index of the rows, column " in note


@pytest.mark.parametrize("name", ["__index_level_0__", "patient"])
def test_nothing_is_learned_from_the_index_of_a_frame(tmp_path, name):
    pq.write_table(indexed(name), tmp_path / "t.parquet")
    rows, [note] = make_rows(f"parquet:{tmp_path}/t.parquet", tmp_path)
    assert (rows, note.endswith(f"column {name}")) == (sorted(NUMBERS), True)
    assert find_dataset(f"parquet:{tmp_path}/t.parquet#client={name}", tmp_path).assigned.num_clients == 31


def test_two_spellings_of_a_name_are_one_class_one_client_and_one_column(tmp_path):
    """The class is composed in even rows and decomposed in others; the header is decomposed."""
    spelled = [normalize("NFD" if row % 2 else "NFC", "é") for row in range(40)]
    content = lines(**{normalize("NFD", "größe"): [f"k{text}" for text in spelled], "c": spelled})
    name = write(tmp_path, content.replace("x", "é"), "t.csv")
    dataset = find_dataset(f"{name}#client={normalize('NFC', 'größe')}", tmp_path)
    assert (dataset.class_names, dataset.assigned.client_names) == (("y", "é"), ("ké",))
    assert dataset.inputs.shape == (3,)


def test_classes_that_are_numbers_have_their_order(tmp_path):
    labels = ["-1", "2", "10", "-2.5", "1e1"]
    name = write(tmp_path, "a,label\n" + "\n".join(f"1,{label}" for label in labels * 3))
    assert find_dataset(name, tmp_path).class_names == ("-2.5", "-1", "2", "10", "1e1")
    name = write(tmp_path, {"a": [1.0] * 8, "label": [-0.0, -1.0, 0.0, 10.0] * 2}, "t.parquet")
    assert find_dataset(name, tmp_path).class_names == ("-1", "0", "10")


def test_time_stamps_keep_what_tells_them_apart(tmp_path):
    """As numbers, whole numbers, and numbers to predict; their mean is taken off."""
    stamps = [1_700_000_000 + row for row in range(40)]
    for name in (write(tmp_path, lines(t=stamps)), write(tmp_path, {"t": stamps, **COLUMNS}, "t.parquet")):
        rows, [note] = make_rows(name, tmp_path)
        assert np.diff([row[0] for row in rows]) == pytest.approx(np.ones(39), abs=1e-5)
        assert "an offset is taken off all rows" in note
        assert note.endswith(": t (1.7e+09)")
        pool, test = load_dataset(f"{name}#target=t,drop=label", tmp_path)
        targets = np.sort(np.concatenate([pool.labels, test.labels]))
        assert targets.tolist() == [row - 19.5 for row in range(40)]


BAD = {
    "UTF-16": (lines().encode("utf-16"), "is not a csv file, but UTF-16 text; save it as UTF-8"),
    "UTF-16 without a mark": (lines().encode("utf-16-le"), "but UTF-16 text"),
    "cp1252": (lines(c=["é"] * 40).encode("cp1252"), r"row 1 is not UTF-8 in column c, .*cp1252 'é'"),
    "cp1252 header": (lines(é=[1] * 40).encode("cp1252"), "is not UTF-8, .*in cp1252 'é'"),
    "gzip": (gzip.compress(lines().encode()), "but compressed by gzip; unpack it"),
    "pickle": (pickle.dumps([1]), "but a pickle, which can run any code"),
    "Parquet": (b"PAR1", "but Parquet; take parquet:.*t.csv"),
    "Excel": (b"PK\x03\x04", "but a zip archive, as Excel's xlsx"),
    "a class NA": (lines().replace("x", "NA"), "row 2 has 'NA' in column label, .*write another"),
    "a class None": (lines().replace("x", "None"), "row 2 has 'None' in column label"),
    "a question mark": (lines(c=[*range(10)] * 3 + ["?", *range(9)]), "row 31 has '.' in column c, .*drop=c"),
    "texts": (lines(c=[f"a text {row}" for row in range(40)]), "such as 'a text 0'; .*hf:.*tokens=chars"),
    "dates": (lines(c=[f"2020-01-{row:02}" for row in range(40)]), "dates such as 2020-01-00; .*days since"),
    "twice without a name": (",," + lines().replace("\n", "\n,,"), "has several columns without a name"),
    "a web page": (b"<!DOCTYPE html>", "but a web page; download the file itself"),
    "percents": (lines(c=[f"{row}.5 %" for row in range(40)]), "has 0.5 %, a number with a unit; write the"),
    "no header": ("1.5,x\n2.5,y\n", "has 1.5 in its first row; write the names of the columns there"),
    "an open quote": (lines().replace("x", '"x', 1), "row 2 has a quote in column label that nothing closes"),
    "many columns": (",".join(f"g{at}" for at in range(99)) + "\n" + ",".join("1" * 99), "g19 and 79 more;"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD)
def test_a_strange_table_is_refused_in_one_line(tmp_path, content, said):
    with pytest.raises((DataError, ConfigError), match=said) as refused:
        find_dataset(write(tmp_path, content), tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mark", ["#label=a,label=b", "#test=0.2,test=0.3", "#64,80"])
def test_an_option_has_one_value(tmp_path, mark):
    with pytest.raises(ConfigError, match="contradict each other; leave one of the two out"):
        find_dataset(f"{write(tmp_path, lines())}{mark}", tmp_path)


@pytest.mark.parametrize(
    "mark", ["#skip", "#", "#label=a, client=b", "#label=a,", "#drop=a,b", "#min-rows=5", "#16x"]
)
def test_what_is_no_option_is_named(tmp_path, mark):
    with pytest.raises(ConfigError, match="t.csv: '#.*' are no options; expected .*label=y .* no spaces"):
        find_dataset(f"{write(tmp_path, lines())}{mark}", tmp_path)


def test_texts_in_quotes_may_have_line_breaks_at_the_end_too(tmp_path):
    assert find_dataset(write(tmp_path, lines().replace("x", '"x\nz"') + "\n"), tmp_path).class_names == (
        "x\nz",
        "y",
    )


def test_columns_to_drop_may_be_many(tmp_path):
    name = f"{write(tmp_path, lines(c=range(40)))}#drop=a,drop=c,label=label,label=label"
    assert find_dataset(name, tmp_path).inputs.shape == (1,)


NOT_UTF8 = pa.array([b"\xff"] * 40)
NEITHER = {
    "list": pa.array([[1.0]] * 40),
    "struct": pa.array([{"u": 1}] * 40),
    "binary": NOT_UTF8,
}


@pytest.mark.parametrize("role", ["", "label", "target", "client", "group", "subject", "test"])
@pytest.mark.parametrize("column", NEITHER.values(), ids=NEITHER)
def test_neither_numbers_nor_texts_are_refused_in_every_role(tmp_path, column, role):
    name = write(tmp_path, {**COLUMNS, "odd": column}, "t.parquet")
    said = f"a {role} is a number or a text; name another column, #{role}=" if role else "#drop=odd"
    with pytest.raises(ConfigError, match=f"column odd has .*{said}"):
        find_dataset(f"{name}#{role}=odd" if role else name, tmp_path)


@pytest.mark.parametrize("role", ["", "label", "client"])
def test_texts_that_are_not_utf8_are_refused_in_every_role(tmp_path, role):
    texts = pa.Array.from_buffers(pa.string(), 40, NOT_UTF8.buffers())
    name = write(tmp_path, {**COLUMNS, "odd": texts}, "t.parquet")
    with pytest.raises(DataError, match="row 1 is not UTF-8 in column odd"):
        find_dataset(f"{name}#{role}=odd" if role else name, tmp_path)


def test_half_floats_categories_and_views_of_texts_are_read(tmp_path):
    kinds = {
        "half": pa.array(np.arange(40, dtype=np.float16) / 2),
        "category": pa.array(["u", "v"] * 20).dictionary_encode(),
        "view": pa.array(["1", "2"] * 20, pa.string_view()),
    }
    name = write(tmp_path, {**kinds, "label": LABELS}, "t.parquet")
    rows, _ = make_rows(name, tmp_path)
    assert rows[:2] == [[0.0, 1.0, 0.0, 1.0], [0.5, 0.0, 1.0, 2.0]]
    assert find_dataset(f"{name}#client=half", tmp_path).assigned.client_names[:3] == ("0", "0.5", "1")


def arrays(**changes):
    numbers, labels = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    given = {f"{part}_{what}": array for part in ("train", "test") for what, array in
             (("images", numbers), ("labels", labels))}  # fmt: skip
    return {**given, **changes}


BAD_ARRAYS = {
    "labels from 1": ({f"{part}_labels": np.arange(10) % 2 + 1 for part in ("train", "test")},
                      "numbered from 1 to 2; number them from 0, labels - 1"),
    "labels as objects": ({"train_labels": np.array([0, 1] * 5, object)},
                          "train_labels has Python objects, .*tolist"),
    "labels as texts": ({"train_labels": np.array(["a", "b"] * 5)}, "train_labels is <U1 .*np.unique"),
    "time stamps": ({"train_images": np.full((10, 2), 1_700_000_000)}, "tokens, .*astype"),
    "uint64": ({"train_images": np.full((10, 2), 2**63, np.uint64)}, "tokens, .*astype"),
    "no columns": ({"train_images": np.zeros((10, 0))}, "has nothing to learn from"),
    "beyond": ({"test_images": np.full((10, 2), -1e300)}, "row 0 of test_images has -1e.300 in column 0; wr"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_strange_arrays_are_refused_in_one_line(tmp_path, changes, said):
    np.savez(tmp_path / "t.npz", **arrays(**changes))
    with pytest.raises(DataError, match=said):
        load_dataset(f"npz:{tmp_path}/t.npz", tmp_path)


def test_a_table_of_many_columns_is_read_in_one_block(tmp_path):
    """In blocks of a megabyte each column of it is in many pieces, and to compute with these takes long."""
    names = [f"g{at}" for at in range(2000)]
    row = ",".join(["0.123456"] * 2000)
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *[row] * 100]))
    assert read_table(tmp_path / "t.csv", False).column(0).num_chunks == 1
