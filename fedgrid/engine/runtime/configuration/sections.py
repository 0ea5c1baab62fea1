"""Sections of a configuration, and the classes that one of them may be of.

A setting such as `aggregate`, `clusterer`, `local` or a step of `uplink` is a choice with settings: its keys
depend on what is chosen. Its classes are those that its type names and, below a base class, the registered
ones, so that a plugin's are among them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from inspect import isabstract
from types import MappingProxyType
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedgrid.algorithms.clustering.clusterers import CLUSTERERS
from fedgrid.algorithms.contract.aggregator import AGGREGATORS
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.contract.section import find_default_name
from fedgrid.algorithms.robust.before import MIXINGS
from fedgrid.engine.federation.errors import Key

Model: TypeAlias = BaseModel | type[BaseModel]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def list_registered_classes() -> tuple[type[BaseModel], ...]:
    """List the classes that a setting of an algorithm may choose by name, those of plugins in use too."""
    return (*CLUSTERERS.values(), *AGGREGATORS.values(), *MIXINGS.values(), *LOCAL_METHODS.values())


def list_classes(annotation: Any) -> tuple[type[BaseModel], ...]:
    """List the classes of the section that a setting of this type holds; empty for a plain value.

    There are several where the setting is a choice.
    """
    return _list_classes(annotation, list_registered_classes())


@cache
def _list_classes(annotation: Any, registered: tuple[type[BaseModel], ...]) -> tuple[type[BaseModel], ...]:
    """List the classes of a setting; cached, because values of thousands of runs are read by them."""
    named = tuple(_iterate_models(annotation))
    own = (kind for kind in named if not isabstract(kind))
    return tuple(dict.fromkeys((*own, *(kind for kind in registered if issubclass(kind, named)))))


def _iterate_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models within a type, but for those that are values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not dict:
        for part in get_args(annotation):
            yield from _iterate_models(part)


def list_fields(model: Model) -> dict[str, FieldInfo]:
    """List the fields of a section."""
    return (model if isinstance(model, type) else type(model)).model_fields


def find_section(model: Model, location: Key, given: Mapping[str, Any] = NOTHING) -> Model | None:
    """Find the section of a configuration at `location`, None if there is a plain value.

    Args:
        model: a class, or an instance, whose own sections then say which class a setting has.
        location: path of keys.
        given: the values that a user gives; a `name` among them chooses the class. Default: none.
    """
    section: Model | None = model
    for name in location:
        if section is None:
            return None
        field = list_fields(section).get(name)
        value = given.get(name)
        given = value if isinstance(value, Mapping) else NOTHING
        own = getattr(section, name, None) if isinstance(section, BaseModel) else None
        section = _find_class(field, given.get("name"), own) if field is not None else None
    return section


def _find_class(field: FieldInfo, name: object, own: object) -> Model | None:
    """Find the class of a setting that is a section, None if it is not, or nothing says which of several.

    Args:
        field: the setting.
        name: the name that a user gives to choose one.
        own: the section that stands there otherwise.
    """
    if isinstance(name, str):
        for kind in list_classes(field.annotation):
            if find_default_name(kind) == name:
                return kind
    if isinstance(own, BaseModel):
        return own
    classes = list_classes(field.annotation)
    return classes[0] if len(classes) == 1 else None


def find_fields(model: Model, path: Key) -> list[FieldInfo]:
    """Find the fields that a path of keys may mean: several where a section on it may be of several classes.

    Empty if there is no such key.
    """
    *sections, last = path
    models = [model if isinstance(model, type) else type(model)]
    for name in sections:
        fields = (kind.model_fields.get(name) for kind in models)
        models = [kind for field in fields if field is not None for kind in list_classes(field.annotation)]
    return [kind.model_fields[last] for kind in models if last in kind.model_fields]
