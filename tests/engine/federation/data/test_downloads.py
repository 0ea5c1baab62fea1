"""Downloads leave all files of a data set or none, and fail in one line."""

import urllib.error
from functools import partial

import pytest

from fedgrid.engine.federation.data import downloads
from fedgrid.engine.federation.errors import DataError


class TestDownload:
    FILES = ("SET/raw/a", "SET/raw/b")

    def test_downloaded_files_arrive_together(self, tmp_path):
        def fetch(folder):
            (folder / "SET" / "raw").mkdir(parents=True)
            for name in (*self.FILES, "SET/raw/a.gz"):
                (folder / name).write_text(name)

        downloads.download("Set", fetch, self.FILES, tmp_path / "new")
        assert sorted(path.name for path in (tmp_path / "new").rglob("*") if path.is_file()) == ["a", "b"]

    @pytest.mark.parametrize(
        "error",
        [
            urllib.error.URLError(OSError("no route to host")),
            RuntimeError("Error downloading a.gz:\nTried there, got:\nno route to host"),
            TimeoutError("no route to host"),
        ],
    )
    def test_failed_download_leaves_no_files(self, tmp_path, error):
        def fetch(folder):
            (folder / "SET" / "raw").mkdir(parents=True)
            (folder / "SET" / "raw" / "a").write_text("half")
            raise error

        with pytest.raises(DataError) as caught:
            downloads.download("Set", fetch, self.FILES, tmp_path)
        message = str(caught.value)
        assert message.startswith(f"Set could not be downloaded into {tmp_path} (")
        assert "no route to host" in message
        assert message.endswith("put these files there: SET/raw/a, SET/raw/b")
        assert "\n" not in message
        assert list(tmp_path.iterdir()) == []

    def test_data_folder_that_cannot_be_created_is_named(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match="Set could not be downloaded into .*file/data"):
            downloads.download("Set", lambda folder: None, self.FILES, tmp_path / "file" / "data")

    @pytest.mark.parametrize(
        "fetch",
        [
            *(
                partial(downloads.torchvision, name)
                for name in ("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100")
            ),
            *(partial(downloads.medmnist, "pathmnist"), downloads.svhn),
        ],
    )
    def test_torchvision_errors_are_reported_in_one_line(self, tmp_path, monkeypatch, fetch):
        from torchvision.datasets import utils

        def no_network(*args, **kwargs):
            raise urllib.error.URLError("no route to host")

        monkeypatch.setattr(utils.urllib.request, "urlopen", no_network)
        with pytest.raises(DataError, match=r"Set could not be downloaded .*no route to host.*: x$"):
            downloads.download("Set", fetch, ("x",), tmp_path)
        assert list(tmp_path.iterdir()) == []
