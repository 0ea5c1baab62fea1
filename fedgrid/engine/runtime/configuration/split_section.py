"""The section `split` completed: defaults of its kind, classes by number, its file by content."""

from collections.abc import Mapping

from pydantic import ValidationError

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.names import is_name
from fedgrid.engine.federation.dealing.kinds import kind_of
from fedgrid.engine.federation.dealing.own import OwnKind
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.majority import number_classes
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.validation import explain
from fedgrid.engine.runtime.data.partition_files import assigned_in, name_of_file


def complete_split(given: object, dataset_given: str, dataset: Dataset) -> object:
    """Return the section with its defaults; of a stored run it has numbers of classes, no names.

    Raises:
        ConfigError: no kind has that name, or there is no such file or class, or a key of a plugin's kind is
            impossible.
        DataError: the file cannot be read.
    """
    split = {"kind": given} if isinstance(given, str) else given
    if not isinstance(split, Mapping):
        return given
    name = str(split.get("kind", Split().kind))
    kind = kind_of(name)
    sizes = split.get("sizes")
    counted = {"num_clusters": len(sizes)} if isinstance(sizes, list | tuple) and sizes else {}
    complete = {**kind.DEFAULTS, **counted, **split}
    if isinstance(kind, OwnKind):
        try:
            complete |= kind.options(complete)
        except ValidationError as error:
            problem = explain(error, kind.rule)
            raise ConfigError(f"split {name}: {problem}", ("split", *problem.key)) from error
    if (path := _path_in(complete)) is not None:
        complete["path"] = name_of_file(path)
    if is_name(dataset_given):
        return complete
    return number_classes(complete, dataset.name, dataset.class_names)


def clients_in(split: object) -> int | None:
    """Return how many clients the file of a completed section has; None without a file.

    Raises:
        DataError: the file is not as it must be.
    """
    assigned = assigned_in(_path_in(split))
    return None if assigned is None else assigned.num_clients


def _path_in(split: object) -> str | None:
    path = split.get("path") if isinstance(split, Mapping) and split.get("kind") == FILE else None
    return path if isinstance(path, str) else None
