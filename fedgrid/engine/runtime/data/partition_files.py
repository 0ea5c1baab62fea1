"""Files that list which client holds what, csv or Parquet: how they are read, and how a run names them.

The columns are `client` and, if the file has them, `group`, `part` and `example` (`assign_rows` of
`federation.data.partition` says what they mean). As with the user's own images a run has a file by short name
and content: `partition:mine.csv@3f2a91c0d4e5`.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from fedgrid.engine.federation.data import names
from fedgrid.engine.federation.data.dataset import Dataset, Facts
from fedgrid.engine.federation.data.images import Pair
from fedgrid.engine.federation.data.names import are_numbers
from fedgrid.engine.federation.data.partition import Partition, assign_rows
from fedgrid.engine.federation.data.tables.columns import INDEX
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.data.tables import PARQUET, find_other_kinds, format_texts, read_table
from fedgrid.engine.runtime.storage.user_files import make_absolute

PREFIX = f"{names.PARTITION}:"
CLIENT, GROUP, PART, EXAMPLE = COLUMNS = ("client", "group", "part", "example")


def name_partition_file(given: str) -> str:
    """Build what a run calls a file that is given by its path, or by such a name.

    Raises:
        ConfigError: there is none.
    """
    if names.is_content_name(given):
        return given
    path = make_absolute(given.removeprefix(PREFIX), "images in")
    if not path.is_file():
        raise ConfigError(
            f"split.path = {given}: {path} is no file; name a csv or Parquet file with a column {CLIENT}",
            ("split", "path"),
        )
    return own_images.name_by_digest(names.PARTITION, path, "", [path])


def load_partition(name: str | None) -> Partition | None:
    """Load the partition in the file that a run calls `name`; None for what is no such name.

    Raises:
        DataError: the file is not as it must be, or not the one that the run was made with.
    """
    if name is None or not names.is_content_name(name):
        return None
    path = own_images.require_place(name)
    if own_images.digest_files(path, [path]) != names.extract_digest(name):
        raise DataError(
            f"{path} is another file than the {name} of this run; put that back, or start a run with the new "
            "one"
        )
    return read_partition_file(path, name)


def add_partition(pair: Pair, split: Split) -> Pair:
    """Add the partition in a split's file, if it has one, to the pool of a data set."""
    pool, official = pair
    return pair if split.path is None else (replace(pool, assigned=load_partition(split.path)), official)


def add_partition_facts(dataset: Dataset, split: Split) -> Facts:
    """Add the partition in a split's file, if it has one, to the facts about a data set."""
    return dataset if split.path is None else replace(dataset, assigned=load_partition(split.path))


@lru_cache(maxsize=8)
def read_partition_file(path: Path, name: str) -> Partition:
    """Read the partition in a file; `name` has a digest of its content.

    Raises:
        DataError: a column or a value is missing or wrong.
    """
    table = read_table(path, path.suffix == PARQUET)
    given = [name for name in table.column_names if not INDEX.fullmatch(name)]
    if CLIENT not in given:
        raise DataError(
            f"{path} has no column {CLIENT}, but {', '.join(given)}; name the client of each example there"
        )
    for column in given:
        if column not in COLUMNS:
            raise DataError(f"{path}: unknown column '{column}'; allowed: {', '.join(COLUMNS)}; remove it")
    if others := find_other_kinds({column: table[column] for column in given}):
        column, kind = next(iter(others.items()))
        raise DataError(f"{path}: column {column} has {kind}; write numbers or texts there")
    columns = {column: format_texts(table[column]) for column in given}
    assigned = assign_rows(
        path.name,
        columns[CLIENT],
        groups_R=columns.get(GROUP),
        parts_R=columns.get(PART),
        examples_R=columns.get(EXAMPLE),
    )
    # Clients that are numbers keep them in the records, so none may be left out.
    if are_numbers(assigned.client_names):
        for number, client in enumerate(assigned.client_names):
            if int(client) != number:
                raise DataError(
                    f"{path}: client {number} has no example; number the clients 0, 1, 2, ..., or give them "
                    "names, such as c1"
                )
    return assigned
