"""Download the published data sets with torchvision; the data folder never holds incomplete files."""

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPException
from importlib import import_module
from pathlib import Path

from fedgrid.engine.federation.errors import DataError

TIMEOUT_SECONDS = 60.0
"""Without an answer from a server."""

Fetch = Callable[[Path], None]
"""Downloads a data set's files into a folder, checks and unpacks them."""


def torchvision(name: str, folder: Path) -> None:
    """Fetch a data set of torchvision's, by the name of its class."""
    getattr(import_module("torchvision.datasets"), name)(folder, download=True)


def svhn(folder: Path) -> None:
    """Fetch SVHN, without its extra images, into `SVHN`."""
    from torchvision.datasets import SVHN

    for part in ("train", "test"):
        SVHN(folder / "SVHN", split=part, download=True)


def medmnist(name: str, folder: Path) -> None:
    """Download a 28x28 npz file; MedMNIST's own downloader hides every error, even a keyboard interrupt."""
    from medmnist import INFO
    from torchvision.datasets.utils import download_url

    download_url(INFO[name]["url"], folder, filename=f"{name}.npz", md5=INFO[name]["MD5"])


def download(title: str, fetch: Fetch, files: tuple[str, ...], data_dir: Path) -> None:
    """Download into a temporary folder, and move `files` into `data_dir` once all of them are complete.

    Raises:
        DataError: no network, a wrong checksum, or `data_dir` cannot be written.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=data_dir) as folder:
            with _bounded_and_off_stdout():
                fetch(Path(folder))
            for name in files:
                (data_dir / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(folder) / name, data_dir / name)
    # torchvision raises RuntimeError for a wrong checksum and if no mirror answers.
    except (OSError, RuntimeError, EOFError, HTTPException) as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{title} could not be downloaded into {data_dir} ({cause}); "
            "check the network and the data folder and try again, or put these files there: "
            f"{', '.join(files)}"
        ) from error


@contextlib.contextmanager
def _bounded_and_off_stdout() -> Iterator[None]:
    """Set a timeout for silent servers, and print progress to stderr, as stdout may be read by programs."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        socket.setdefaulttimeout(before)
