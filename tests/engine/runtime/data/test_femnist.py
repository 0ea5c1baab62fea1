"""FEMNIST from LEAF's json files and from Parquet files, and what a run makes of it."""

import json
import os
import random
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fedgrid import parquet_files
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.errors import DataError, StorageError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset, load_dataset
from fedgrid.engine.runtime.data.femnist import FemnistCounts, convert_femnist_files
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.command_line import fedgrid

WRITERS = [f"f{number:04}_00" for number in range(62)]


def written(writer, count=10):
    """Return what writer k writes: only class k, its image i with the grey value k + i everywhere."""
    number = WRITERS.index(writer)
    return [(number, number + place) for place in range(count)]


def leaf(writers, skip=0, count=10):
    """Return the content of one of LEAF's files."""
    data = {
        writer: {
            "x": [[round(grey / 255, 4)] * 784 for _, grey in written(writer, count)[skip:]],
            "y": [label for label, _ in written(writer, count)[skip:]],
        }
        for writer in writers
    }
    samples = [len(each["y"]) for each in data.values()]
    return json.dumps({"users": list(writers), "num_samples": samples, "user_data": data})


def png(grey, side=28):
    file = BytesIO()
    Image.new("L", (side, side), grey).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def source(tmp_path):
    """LEAF's files of 62 writers with ten images each, in an order that is not the writers'."""
    folder = tmp_path / "all_data"
    folder.mkdir()
    mixed = random.Random(0).sample(WRITERS, 62)
    (folder / "all_data_0.json").write_text(leaf(mixed[:40]))
    (folder / "all_data_1.json").write_text(leaf(mixed[40:]))
    return folder


def check(data_dir):
    """Check that the file of a data folder holds all that the 62 writers have written."""
    pool, server = load_dataset("femnist", data_dir)
    assert pool.images.shape == (558, 1, 28, 28)
    assert pool.labels.tolist() == [label for label in range(62) for _ in range(9)]
    assert pool.groups.tolist() == pool.labels.tolist()
    assert pool.images[:, 0, 27, 3].tolist() == [k + i for k in range(62) for i in range(9)]
    assert server.labels.tolist() == server.groups.tolist() == list(range(62))
    assert server.images[:, 0, 0, 0].tolist() == [k + 9 for k in range(62)]


class TestLeaf:
    def test_every_tenth_image_of_a_writer_is_the_servers(self, source, tmp_path):
        assert convert_femnist_files(source, tmp_path / "data" / "femnist.npz") == FemnistCounts(62, 558, 62)
        check(tmp_path / "data")

    def test_train_and_test_folders_of_leaf_count_together(self, tmp_path):
        for part, values in (("train", leaf(WRITERS, count=8)), ("test", leaf(WRITERS, skip=8))):
            (tmp_path / part).mkdir()
            (tmp_path / part / "some.json").write_text(values)
        convert_femnist_files(tmp_path, tmp_path / "femnist.npz")
        check(tmp_path)


of_writer = '{{"user_data": {{"a": {{"x": {}, "y": {}}}}}}}'.format
ONE = {"writer": ["a"], "label": [0], "image": [png(0)]}
PIXELS = "[[1.0" + ", 0" * 783 + "]]"
BAD = {
    "no JSON": ("{", "is not one of LEAF's files"),
    "a list": ("[]", "is not one of LEAF's files"),
    "a deep list": ("[" * 200_000, "is not one of LEAF's files"),
    "no data": ('{"users": []}', "'user_data' is missing"),
    "one pixel": (of_writer("[[0.5]]", [1]), "cannot reshape"),
    "a bright pixel": (of_writer(PIXELS.replace("1.0", "1.5"), [1]), "outside 0 to 1"),
    "a class 62": (of_writer(PIXELS, [62]), "label 62 of writer a"),
    "no label": (of_writer(PIXELS, []), "0 labels for 1 images"),
    "nine images": (leaf(WRITERS, count=9), "has 0 test images, and none of class 0; take more writers"),
    "no column": ({"writer": ["a"], "image": [png(0)]}, "no column label or character, but writer, image"),
    "another size": ({**ONE, "image": [png(0, side=32)]}, "32x32 pixels"),
    "no image": ({**ONE, "image": [b"nothing"]}, "cannot identify"),
    "half an image": ({**ONE, "image": [png(0)[:50]]}, "is not a Parquet file of FEMNIST"),
    "a grey value 256": ({**ONE, "image": [[256] * 784]}, "not a whole number from 0 to 255"),
    "a text": ({**ONE, "label": ["0"]}, "label '0' of writer a is not a class"),
    "no Parquet": (b"text", "a.parquet is not a Parquet file of FEMNIST"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "cause"), BAD.values(), ids=BAD)
def test_other_files_are_refused_with_the_cause(tmp_path, content, cause):
    (source := tmp_path / "source").mkdir()
    if isinstance(content, dict):
        pq.write_table(pa.table(content), source / "a.parquet")
    elif isinstance(content, bytes):
        (source / "a.parquet").write_bytes(content)
    else:
        (source / "a.json").write_text(content)
    with pytest.raises(DataError) as refused:
        convert_femnist_files(source, tmp_path / "femnist.npz")
    assert [part for part in (str(source), cause) if part not in str(refused.value)] == []
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "femnist.npz").exists()


class TestParquet:
    @pytest.mark.parametrize("kind", ["png", "mapping", "values"])
    def test_images_by_writer_and_label(self, tmp_path, kind):
        rows = [(writer, *image) for writer in WRITERS for image in written(writer)]
        shown = {
            "png": lambda grey: png(grey),
            "mapping": lambda grey: {"bytes": png(grey), "path": None},
            "values": lambda grey: [grey] * 784,
        }[kind]
        names = ("writer_id", "character") if kind == "mapping" else ("writer", "label")
        columns = [[row[0] for row in rows], [row[1] for row in rows], [shown(row[2]) for row in rows]]
        table = pa.table(dict(zip((*names, "image"), columns, strict=True)))
        pq.write_table(table.slice(0, 300), tmp_path / "train-0.parquet")
        pq.write_table(table.slice(300), tmp_path / "train-1.parquet")
        convert_femnist_files(tmp_path, tmp_path / "femnist.npz")
        check(tmp_path)

    def test_file_that_unpacks_to_more_than_the_memory_is_refused(self, tmp_path, monkeypatch):
        """A page may hold one value a billion times in a few bytes."""
        rows = 200_000
        table = pa.table({"writer": ["a"] * rows, "label": [0] * rows, "image": [png(0)] * rows})
        pq.write_table(table, tmp_path / "a.parquet")
        assert (tmp_path / "a.parquet").stat().st_size < 10_000
        monkeypatch.setattr(parquet_files, "read_memory_limit", lambda: 8_000_000)
        with pytest.raises(DataError, match=r"a.parquet is not .*it would take .* GB of memory"):
            convert_femnist_files(tmp_path, tmp_path / "femnist.npz")


class TestSource:
    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("suffix", ["json", "parquet"])
    def test_pipe_is_refused_at_once(self, tmp_path, suffix):
        os.mkfifo(tmp_path / f"a.{suffix}")
        with pytest.raises(DataError, match=f"a.{suffix} is not .*no regular file"):
            convert_femnist_files(tmp_path, tmp_path / "femnist.npz")

    def test_files_of_finder_and_links_to_files_are_no_trouble(self, source, tmp_path):
        (source / "._all_data_0.json").write_bytes(b"\0\5\x16\7")
        (source / "all_data_1.json").rename(tmp_path / "elsewhere.json")
        (source / "all_data_1.json").symlink_to(tmp_path / "elsewhere.json")
        convert_femnist_files(source, tmp_path / "femnist.npz")
        check(tmp_path)

    @pytest.mark.parametrize("name", ["missing", "empty", "images.csv"])
    def test_source_without_images_is_refused_with_what_is_expected(self, tmp_path, name):
        (tmp_path / "empty").mkdir()
        (tmp_path / "images.csv").write_text("a,b")
        with pytest.raises(DataError, match=f"{name} has no images of FEMNIST; expected .*LEAF.*parquet"):
            convert_femnist_files(tmp_path / name, tmp_path / "femnist.npz")

    def test_target_that_cannot_be_written_is_named(self, source, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match="file"):
            convert_femnist_files(source, tmp_path / "file" / "femnist.npz")


class TestCommand:
    def test_command_says_what_it_has_written(self, source, tmp_path):
        result = fedgrid("data", "femnist", "--from", source, "--data-dir", tmp_path / "data")
        assert result.code == 0, result.err
        assert result.out.startswith("62 writers, 558 training images and 62 for the server: ")
        assert result.out.rstrip().endswith("data/femnist.npz")
        check(tmp_path / "data")


class TestRuns:
    def test_missing_file_names_the_command_that_makes_it(self, tmp_path):
        with pytest.raises(
            DataError, match="femnist.npz is missing; .* `fedgrid data femnist --from SOURCE`"
        ):
            load_dataset("femnist", tmp_path)
        assert find_dataset("femnist", tmp_path) == DATASETS["femnist"]

    def test_each_writer_is_a_client(self, source, tmp_path):
        convert_femnist_files(source, tmp_path / "femnist.npz")
        found = find_dataset("femnist", tmp_path)
        assert (found.pool_size, found.num_groups, found.num_classes) == (558, 62, 62)
        run = complete_config({"dataset": "femnist", "split": "natural", "clients": 62}, tmp_path)
        assert run.model == "lenet5-tanh"
        setup, truth = prepare_setup(run, tmp_path)
        assert truth.tolist() == list(range(62))
        assert all(set(client.train.labels) == {client.client} for client in setup.clients)
        assert len(setup.server_set) == 62
