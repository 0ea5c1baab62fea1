"""The section `split` of a run with the defaults of its kind."""

from collections.abc import Mapping

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.dealing.kinds import kind_of
from fedgrid.engine.federation.partition.from_file import FILE
from fedgrid.engine.federation.partition.majority import number_classes
from fedgrid.engine.runtime.data.partition_files import assigned_in, name_of_file, path_in


def complete_split(given: object, dataset: Dataset, *, is_stored: bool) -> object:
    """Return the section with its defaults; a stored one has numbers of classes, no names.

    Raises:
        ConfigError: no kind has that name, or no class, or a file is missing.
    """
    split = {"kind": given} if isinstance(given, str) else given
    if not isinstance(split, Mapping):
        return given
    name = str(split.get("kind", dataset.split))
    kind = kind_of(name)
    sizes = split.get("sizes")
    counted = {"num_clusters": len(sizes)} if isinstance(sizes, list | tuple) and sizes else {}
    complete = {"kind": name, **kind.DEFAULTS, **counted, **split}
    if (path := path_in(complete)) is not None:
        complete["path"] = name_of_file(path)
    return complete if is_stored else number_classes(complete, dataset.name, dataset.class_names)


def clients_of_split(split: object, dataset: Dataset) -> int:
    """Return how many clients a completed section of kind file has, 0 if it is of another kind."""
    if not isinstance(split, Mapping) or split["kind"] != FILE:
        return 0
    assigned = dataset.assigned if (path := path_in(split)) is None else assigned_in(path)
    return 0 if assigned is None else assigned.num_clients
