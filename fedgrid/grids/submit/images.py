"""The user's own images, and files of splits, that travel with a job: those that a grid or an option names by
a relative path. Of a data set on the Hugging Face hub its revision travels: each machine fetches it."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.data.names import place_and_mark
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.data.datasets import files_of, find, pinned
from fedgrid.engine.runtime.data.own_images import OWN_FORMATS, SHIPPED, SHIPPED_FOLDER
from fedgrid.grids.display.plain import print_marked

TABLES = (".csv", ".parquet")
LIMIT = 64 << 20
"""Bytes. Ray's job server takes a job of 100 MiB, and holds it in memory."""


class Shipment:
    """Copies images into a job's working directory, into a folder named by their content.

    `npz:mine.npz` becomes `npz:@3f2a.../mine.npz`, whichever directory the job gets. `hf:NAME` becomes
    `hf:NAME@` and the commit, whichever is the newest when the job starts.
    """

    def __init__(self, job: Path) -> None:
        """Ship into the working directory `job`."""
        self._folder = job / SHIPPED_FOLDER.name
        self._names: dict[str, str] = {}
        self._size = 0

    def take(self, value: Any) -> None:
        """Copy the images and the files of splits that a value, or one within it, names by a relative path.

        Raises:
            DataError: they cannot be used.
            ConfigError: all images of the job together are too large.
        """
        for name in relative_names(value):
            if name not in self._names:
                self._names[name] = self._ship(name)

    def take_argument(self, argument: str) -> None:
        """Copy what an argument of the command line names, as in `--dataset=npz:mine.npz`; see `take`."""
        self.take(re.sub(r"^[^:#]*=", "", argument))

    def rewrite(self, text: str) -> str:
        """Return `text` with the names that these images have in the job."""
        for name, shipped in self._names.items():
            whole = rf"(?<![\w@:/.-]){re.escape(name)}(?![^\s,\]}}'\"])"
            text = re.sub(whole, shipped.replace("\\", r"\\"), text)
        return text

    def _ship(self, name: str) -> str:
        kind, given = _kind_and_path(name)
        _, mark = place_and_mark(given)
        if names.on_hub(name):
            there = pinned(name)
            print_marked("note:", "bold", f"the cluster's machines fetch {there}, or have it in their caches")
            return there
        if kind in OWN_FORMATS:
            dataset = find(name, Path())
            by_content, place = dataset.name, Path(dataset.location)
        else:
            place = own_images.place_given(given)
            by_content = own_images.name(kind, place, mark, [place])
        files = files_of(kind, place)
        self._size += sum(file.stat().st_size for file in files)
        if self._size > LIMIT:
            raise ConfigError(
                f"{name}: the job's data are {self._size >> 20} MiB with these, and at most "
                f"{LIMIT >> 20} MiB travel with a job; put them on a disk that all machines of the cluster "
                "have, and name the absolute path there"
            )
        shipped = f"{names.digest_in(by_content)}/{place.name}"
        for file in files:
            copy = self._folder / shipped / file.relative_to(place)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        return f"{kind}:{SHIPPED}{shipped}{mark}"


def relative_names(value: Any) -> Iterator[str]:
    """Yield each `npz:PATH`, `folder:PATH` and file of a split with a relative path in a value, or within it.

    A split names its file by a path alone, which is that of a csv or Parquet file that is here. Data sets of
    the hub are among them unless they name a commit.
    """
    if isinstance(value, dict):
        for inner in value.values():
            yield from relative_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from relative_names(inner)
    elif isinstance(value, str):
        for word in re.split(r",(?![a-z_]+=)", value):  # Options of a table have commas between them.
            name = word.strip(" []'\"")
            kind, path = _kind_and_path(name)
            named = names.on_hub(name)
            if named and names.COMMIT.fullmatch(named[1]):
                continue
            is_table = kind == names.PARTITION and Path(path).suffix in TABLES and Path(path).is_file()
            if (is_table or kind in OWN_FORMATS) and path and not path.startswith(("/", "~", SHIPPED)):
                yield name


def _kind_and_path(name: str) -> tuple[str, str]:
    kind, colon, path = name.partition(":")
    return (kind, path) if colon else (names.PARTITION, name)
