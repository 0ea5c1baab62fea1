"""Rows of tables without label or client, and clients with few rows, that options leave out."""

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import digest_pair, find_dataset, load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup

datasets.disable_progress_bars()
ROWS = [f"{row},s{row % 3},{'xy'[row % 2]}" for row in range(30)]
"""Ten rows of each of three sites."""
GAPS = ["7,s0,", ",,", *ROWS[:20], "8,,x", *ROWS[20:], "9,s1,NA"]
"""Three rows have no label, one of these no site, and one has a label and no site."""
SMALL = [*ROWS, "1,a,x", "2,b,x", "3,b,y"]
"""Clients with one row and with two."""


@pytest.fixture
def table(tmp_path):
    """Return a function that writes a table and returns how a run names it."""

    def write(rows, mark="", header="v,site,label"):
        (tmp_path / "t.csv").write_text("\n".join([header, *rows]))
        return f"csv:{tmp_path}/t.csv#client=site{mark}"

    return write


def notes_of(name, folder):
    return [note.partition(": ")[2] for note in find_dataset(name, folder).notes if "leaves out" in note]


@pytest.mark.parametrize(
    ("rows", "mark", "note"),
    [
        (GAPS, ",skip=missing", "leaves out 4 of 34 rows: 3 without label, 1 without site"),
        (SMALL, ",min_rows=3", "leaves out 2 of 5 clients and 3 of 33 rows: a (1), b (2)"),
    ],
)
def test_the_rest_is_the_file_without_these_rows(table, tmp_path, rows, mark, note):
    plain, classes = (
        digest_pair(load_dataset(table(ROWS), tmp_path)),
        find_dataset(table(ROWS), tmp_path).class_names,
    )
    name = table(rows, mark)
    assert (digest_pair(load_dataset(name, tmp_path)), find_dataset(name, tmp_path).class_names) == (
        plain,
        classes,
    )
    [said] = notes_of(name, tmp_path)
    assert said == f"{mark[1:]} {note}"
    config = complete_config({"dataset": name}, tmp_path)
    assert (config.clients, mark[1:] in config.dataset) == (3, True)


def test_what_few_rows_are_is_counted_after_gaps(table, tmp_path):
    rows = [*ROWS, "1,a,x", "2,a,", "3,a,y"]
    assert len(notes_of(table(rows, ",skip=missing,min_rows=3"), tmp_path)) == 2
    assert len(notes_of(table(rows, ",skip=missing,min_rows=2"), tmp_path)) == 1


def test_rows_of_the_servers_test_set_need_no_client(table, tmp_path):
    """Of client a one row trains and three are tests: with fewer than two it is left out, they stay."""
    rows = [f"{row},{row[0] == '0'}" for row in ROWS]
    rows += ["1,,x,1", "2,,y,0", "3,,,1", "4,a,x,0", *["5,a,y,1"] * 3]
    name = table(rows, ",skip=missing,min_rows=2", "v,site,label,test")
    pool, test = load_dataset(name, tmp_path)
    assert sorted(test.images[:, 0].tolist()) == [0, 1, 5, 5, 5]
    assert pool.assigned.client_names == ("s0", "s1", "s2")
    assert len(pool) == 29


def test_a_message_counts_the_rows_of_the_file(table, tmp_path):
    with pytest.raises(DataError, match=r"row 5 has no value in column v \(rows count"):
        find_dataset(table(["1,s0,", "2,,x", "3,s0,y", "3,s0,x", ",s0,y", *ROWS], ",skip=missing"), tmp_path)


@pytest.mark.parametrize(
    ("rows", "mark", "said"),
    [
        (GAPS, "", "row 1 has no value in column label .*; #skip=missing leaves such rows out"),
        ([*ROWS, *["8,,x"] * 3], "", "no value in column site .*; #skip=missing"),
        (["1,a,x", "NA,a,y", *ROWS], ",target=v,drop=label", "row 2 has 'NA' in column v.*#skip=missing"),
        (["1,s0,", "2,,x"], ",skip=missing", "2 of 2 rows: 1 without label, 1 without site; none is left"),
        (SMALL, ",min_rows=11", "no client has min_rows=11 rows; the largest, s0, has 10"),
        (SMALL, ",skip=rows", "unknown option 'skip=rows'; allowed: .*skip=missing, min_rows=NUMBER"),
        (SMALL, ",min_rows=1", "unknown option 'min_rows=1'; .*2 or more"),
        (SMALL, ",drop=site,min_rows=2", "min_rows=2 leaves out clients, and no column has any; .*#client="),
    ],
)
def test_refusals_name_the_option_or_what_is_wrong_with_it(table, tmp_path, rows, mark, said):
    with pytest.raises((ConfigError, DataError), match=said) as refused:
        find_dataset(table(rows, mark), tmp_path)
    assert "\n" not in str(refused.value)


def test_too_small_a_client_is_refused_with_the_option(table, tmp_path):
    rows = [f"{row},{row[0] == '0'}" for row in SMALL]
    name = table(rows, header="v,site,label,test")
    with pytest.raises(ConfigError, match="client 0 would hold 0 training and 1 test .*#min_rows="):
        prepare_setup(complete_config({"dataset": name}, tmp_path), tmp_path)


def test_rows_of_a_saved_data_set_are_left_out_too(tmp_path):
    """-1 is no class. All rows of its split `test` have none, as in data of competitions."""
    columns = {"text": ["ab", "cd", "ef"] * 10, "label": [0, 1, -1] * 10}
    features = Features({"text": Value("string"), "label": ClassLabel(names=["n", "p"])})
    datasets.DatasetDict(
        train=Dataset.from_dict(columns, features),
        test=Dataset.from_dict({"text": ["ab"] * 3, "label": [-1] * 3}, features),
    ).save_to_disk(tmp_path / "set")
    name = f"hf:{tmp_path}/set#tokens=chars,skip=missing"
    with pytest.raises(DataError, match="none is left of the server's test set, #test=0.2 has one drawn"):
        find_dataset(name, tmp_path)
    assert [len(part) for part in load_dataset(f"{name},test=0.2", tmp_path)] == [16, 4]
    assert (
        notes_of(f"{name},test=0.2", tmp_path)[0] == "skip=missing leaves out 10 of 30 rows: 10 without label"
    )
