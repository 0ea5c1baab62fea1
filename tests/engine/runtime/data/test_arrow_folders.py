"""Data sets that `datasets` itself has saved, some with the columns of well-known ones on the hub."""

import datasets
import numpy as np
import pytest
from datasets import Array2D, ClassLabel, Dataset, DatasetDict, Features, Image, List, Value

from fedgrid.engine.federation.data.names import shorten_name
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.inputs import Inputs, image_inputs
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset, load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup

datasets.disable_progress_bars()
TEXT, WHOLE = Value("string"), Value("int64")
PICTURES = np.random.default_rng(0).integers(0, 256, (40, 6, 8), np.uint8)
CYCLE = "to be, or not to be: "


@pytest.fixture
def saved(tmp_path):
    """Return a function that saves columns, or splits of columns, and returns how a user names them."""

    def save(columns, mark="", features=None, **how):
        types = features and Features(features)
        if isinstance(next(iter(columns.values())), dict):
            parts = {split: Dataset.from_dict(part, types) for split, part in columns.items()}
            DatasetDict(parts).save_to_disk(tmp_path / "set")
        else:
            Dataset.from_dict(columns, types).save_to_disk(tmp_path / "set", **how)
        return f"hf:{tmp_path}/set{mark}"

    return save


def femnist():
    """Return columns and features of flwrlabs/femnist: 40 images of 4 writers."""
    rows = range(40)
    columns = {"image": list(PICTURES), "writer_id": [f"f{row % 4}" for row in rows], "hsf_id": [7] * 40}
    columns["character"] = [row % 3 for row in rows]
    classes = ClassLabel(names=["b", "A", "0"])
    return columns, {"image": Image(), "writer_id": TEXT, "hsf_id": WHOLE, "character": classes}


def texts(*given, labels=("p", "n")):
    return {"text": list(given), "label": [labels[row % 2] for row in range(len(given))]}


def test_femnist_is_held_by_its_writers(saved, tmp_path):
    columns, features = femnist()
    name = saved(columns, "#label=character,client=writer_id", features, num_shards=2)
    dataset, (pool, test) = find_dataset(name, tmp_path), load_dataset(name, tmp_path)
    assert (dataset.inputs, dataset.class_names) == (image_inputs(1, 6, 8), ("b", "A", "0"))
    every = {image.tobytes(): row for row, image in enumerate(PICTURES)}
    for part in (pool, test):
        rows = [every[image.tobytes()] for image in part.images]
        assert part.labels.tolist() == [row % 3 for row in rows]
    config = complete_config({"dataset": name}, tmp_path)
    assert (config.clients, config.split.kind, config.model) == (4, "file", "tinyvgg")
    assert config.dataset.startswith("hf:set#client=writer_id,label=character@")


def test_domains_of_pacs_are_natural_groups(saved, tmp_path):
    domains = ["photo", "sketch", "cartoon", "art_painting"]
    columns = {"image": list(PICTURES), "domain": domains * 10, "label": [row % 5 // 3 for row in range(40)]}
    features = {"image": Image(), "domain": TEXT, "label": ClassLabel(names=["dog", "elephant"])}
    name = saved(columns, "#group=domain,16", features)
    config = complete_config({"dataset": name, "split": "natural", "clients": 8}, tmp_path)
    setup, truth_K = prepare_setup(config, tmp_path)
    assert truth_K.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert setup.inputs == image_inputs(1, 16, 16)
    assert shorten_name(config.dataset) == "hf_set-16x16"


def test_shakespeare_is_read_by_character(saved, tmp_path):
    written = CYCLE * 8
    columns = {
        "character_id": [f"play {row // 20}" for row in range(60)],
        "x": [written[row : row + 80] for row in range(60)],
        "y": [written[row + 80] for row in range(60)],
    }
    name = saved(columns, "#client=character_id,input=x,label=y,tokens=chars")
    dataset, (pool, _) = find_dataset(name, tmp_path), load_dataset(name, tmp_path)
    characters = sorted(set(CYCLE))
    assert dataset.class_names == tuple(characters)
    assert dataset.inputs == Inputs("tokens", (80,), 2 + len(characters), padding=0)
    read = "".join(characters[token - 2] for token in pool.images[0])
    assert read + characters[pool.labels[0]] in written
    config = complete_config({"dataset": name}, tmp_path)
    assert (config.model, prepare_setup(config, tmp_path)[0].inputs) == ("lstm", dataset.inputs)


@pytest.mark.parametrize(
    ("mark", "pool", "test"),
    [
        ("#tokens=chars", [[0, 2, 4], [3, 2, 4]], [[0, 3, 1], [0, 0, 4]]),
        ("#tokens=chars,length=2", [[2, 4], [2, 4]], [[3, 1], [0, 4]]),
        ("#tokens=bytes,length=2", [[98, 100], [98, 100]], [[99, 123], [0, 100]]),
    ],
)
def test_texts_are_filled_up_in_front_and_lose_their_beginning(saved, tmp_path, mark, pool, test):
    """The pool has a, b and c, the test set z too."""
    name = saved({"train": texts("ac", "bac"), "test": texts("bz", "c")}, mark)
    parts = load_dataset(name, tmp_path)
    assert [part.images.tolist() for part in parts] == [pool, test]
    assert {part.inputs.padding for part in parts} == {0}


def test_given_tokens_need_one_that_fills(saved, tmp_path):
    columns = {"train": {"ids": [[5, 1], [7]], "label": [0, 1]}, "test": {"ids": [[2], [3]], "label": [0, 1]}}
    with pytest.raises(
        ConfigError, match="1 to 2 tokens; .* fills them up to 2, #pad=0, or a shorter length"
    ):
        find_dataset(name := saved(columns), tmp_path)
    pool, _ = load_dataset(f"{name}#pad=9", tmp_path)
    assert (pool.images.tolist(), pool.inputs) == ([[5, 1], [9, 7]], Inputs("tokens", (2,), 10, padding=9))
    assert load_dataset(f"{name}#length=1", tmp_path)[0].images.tolist() == [[1], [7]]


@pytest.mark.parametrize(
    ("feature", "value", "shape"),
    [
        (List(Value("float32"), length=3), [1.0, 2.0, 3.0], (3,)),
        (List(Value("float64")), [1.0, 2.0], (2,)),
        (Array2D((2, 3), "float32"), [[1.0, 2.0, 3.0]] * 2, (2, 3)),
    ],
)
def test_lists_of_floats_are_numbers(saved, tmp_path, feature, value, shape):
    columns = {"row": [value] * 8, "label": ["a", "b"] * 4}
    pool, _ = load_dataset(saved(columns, features={"row": feature, "label": TEXT}), tmp_path)
    assert pool.inputs == Inputs("numbers", shape)
    assert pool.images[0].tolist() == value


def test_columns_of_numbers_are_those_of_a_csv_file(saved, tmp_path):
    columns = {
        "age": [row % 7 for row in range(40)],
        "sex": ["f", "m", "f", "m"] * 10,
        "label": [row % 2 for row in range(40)],
        "client": [row % 5 for row in range(40)],
    }
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "set.csv").write_text("\n".join([",".join(columns), *lines]))
    one, two = (
        complete_config({"dataset": given}, tmp_path) for given in (saved(columns), f"csv:{tmp_path}/set.csv")
    )
    assert (one.root_seed, one.model, one.clients) == (two.root_seed, two.model, two.clients)
    for part, other in zip(
        load_dataset(one.dataset, tmp_path), load_dataset(two.dataset, tmp_path), strict=True
    ):
        assert part.images.tobytes() == other.images.tobytes()
        assert part.labels.tolist() == other.labels.tolist()


def test_splits_are_chosen_and_those_left_are_named(saved, tmp_path):
    parts = {split: {"n": [number] * 10, "label": [0, 1] * 5} for number, split in enumerate("abc")}
    name = saved({"train": parts["a"], "test": parts["b"], "validation": parts["c"]})

    def held(mark):
        return [np.unique(part.images).tolist() for part in load_dataset(name + mark, tmp_path)]

    assert [len(part) for part in load_dataset(name, tmp_path)] == [10, 10]
    assert "not read: split validation" in find_dataset(name, tmp_path).notes[-1]
    assert held("") == [[0], [1]]
    assert held("#train=train+validation") == [[0, 2], [1]]
    assert held("#test=validation") == [[0], [2]]
    assert held("#test=0.2") == [[0], [0]]


def lists(*given):
    return {"a": [*given] * 2, "label": [0, 1] * 2}


MIXED = {"train": texts(*"abab", labels=(0, 1)), "test": texts("c", "d", labels=(-1, -1))}
FEATURES = {"text": TEXT, "label": ClassLabel(names=["n", "p"])}
BAD = {
    "column": (texts(*"abab"), "#label=mood", "has no column mood, but text, label"),
    "input": (texts(*"abab"), "#input=txt", "has no column txt, but text, label"),
    "option": (texts(*"abab"), "#config=en", "unknown option 'config=en'; allowed: .*train=SPLIT"),
    "split": (MIXED, "#test=dev", "has no split dev, but test, train; name one, #test=SPLIT"),
    "both": (MIXED, "#test=train", "split train cannot be both train and test"),
    "no tokens": (texts(*"abab"), "", "column text has texts; .*#tokens=chars or #tokens=bytes"),
    "tokens": (texts(*"abab"), "#tokens=words", "tokens = words; allowed: chars, bytes"),
    "length": (texts(*"abab"), "#length=0,tokens=chars", "length = 0; expected a whole number"),
    "size": (texts(*"abab"), "#64,tokens=chars", "#SIZE is for images, and text has texts"),
    "empty": (texts("a", "", "a", "a"), "#tokens=chars", "row 2 of split train has no value in column text"),
    "two": ({**lists([1], [2]), "b": [[1]] * 4}, "", "several columns to .*: a, b; .*#input=a"),
    "lengths": (lists([1.0], [1.0, 2.0]), "", "lists of column a have 1 to 2 numbers"),
    "gap": (lists([1.0], [None]), "", "row 2 of split train has no value in column a"),
    "beyond": (lists([1.0], [-1e300]), "", "row 2 has -1e.300 in the lists of column a; write at most"),
    "stamps": (lists([1700000000], [1700000001]), "", "column a has 1700000001, and whole numbers"),
    "minus": (lists([1], [-1]), "", "has the token -1; number tokens from 0"),
    "kind": (lists({"b": "c"}, {"b": "d"}), "", "column a has struct<.*leave it out, #drop=a"),
    "label": ({"a": [[1]] * 2, "label": [[0], [1]]}, "", "column label has lists, and a label is a number"),
    "types": ({"train": {"x": [0.5, 1], "label": ["a", "b"]}, "test": {"x": [0.5, 1], "label": [0, 1]}}, "",
              r"label \(string\) and .*label \(int64\)"),
}  # fmt: skip


@pytest.mark.parametrize(("columns", "mark", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_refused_in_one_line(saved, tmp_path, columns, mark, said):
    with pytest.raises((ConfigError, DataError), match=said) as refused:
        find_dataset(saved(columns, mark), tmp_path)
    assert "\n" not in str(refused.value)


def test_a_test_split_without_labels_is_named(saved, tmp_path):
    name = saved(MIXED, "#tokens=chars", FEATURES)
    with pytest.raises(DataError, match="row 1 of split test has no value in column label"):
        find_dataset(name, tmp_path)
    assert len(load_dataset(f"{name},test=0.5", tmp_path)[0]) == 2


def test_damaged_folders_are_refused(saved, tmp_path):
    columns, features = femnist()
    name = saved(columns, "#label=character", features, num_shards=2)
    first, second = sorted((tmp_path / "set").glob("*.arrow"))
    content = second.read_bytes()
    second.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="data-00001-of-00002.arrow is damaged or incomplete"):
        find_dataset(name, tmp_path)
    second.unlink()
    with pytest.raises(DataError, match="split train has 1 files, .*data-00000-of-00002.arrow .* one of 2"):
        find_dataset(name, tmp_path)
    first.unlink()
    with pytest.raises(DataError, match="set has no files that `save_to_disk` .*hf:NAME"):
        find_dataset(name, tmp_path)


def test_images_of_two_sizes_and_what_is_no_image_are_refused(saved, tmp_path):
    other = np.zeros((4, 4), np.uint8)
    columns = {"image": [PICTURES[0], other] * 2, "label": [0, 1, 1, 0]}
    name = saved(columns, features={"image": Image(), "label": WHOLE})
    with pytest.raises(DataError, match="image of row 2 is grey 4x4, the first image is grey 8x6; .* #64"):
        load_dataset(name, tmp_path)
    columns["image"] = [{"bytes": b"GIF87a and no more", "path": None}] * 4
    name = saved(columns, features={"image": Image(decode=False), "label": WHOLE})
    with pytest.raises(DataError, match="image of row 1 is (damaged|not an image)"):
        find_dataset(name, tmp_path)
