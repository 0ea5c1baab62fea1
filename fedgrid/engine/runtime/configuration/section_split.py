"""The section `split` of a run with the defaults of its kind."""

from collections.abc import Mapping

from pydantic import ValidationError

from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.names import is_name
from fedgrid.engine.federation.dealing.kinds import kind_of
from fedgrid.engine.federation.dealing.own import OwnKind
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.majority import number_classes
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.validation import explain


def complete_split(given: object, dataset: Dataset, called: str) -> object:
    """Return the section with its defaults; `called` is the data set's name as it is given.

    Under the name that a run has of a user's own images, classes have numbers, no names.

    Raises:
        ConfigError: no kind has that name, or no class, or a key of a plugin's kind is impossible.
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
    return complete if is_name(called) else number_classes(complete, dataset.name, dataset.class_names)
