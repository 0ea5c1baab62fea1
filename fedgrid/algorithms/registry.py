"""The algorithms by name: those that come with the package (`built_in`), then those of plugins.

The registry depends on no algorithm: the package `fedgrid.algorithms` adds its own when it is imported.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from pydantic_core import to_jsonable_python

from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.contract.base import Algorithm, Settings
from fedgrid.algorithms.contract.entry import AlgorithmEntry

ALGORITHMS: dict[str, AlgorithmEntry] = {}
"""Name -> entry: those of the package, then those of the plugins in use (`runtime.plugins`)."""
NAMES_IN_PAPERS: dict[str, str] = {}
"""Name of an algorithm in papers, in small letters -> its name here, for messages."""

ARENA = "arena"
"""Word that stands for the members of the arena in the list of a file's algorithms."""

_titles: dict[str, str] = {}
_references: set[str] = set()


def find_title(name: str) -> str:
    """Find the name of an algorithm in papers; its own name if its plugin is not loaded and left no title."""
    return ALGORITHMS[name].title if name in ALGORITHMS else _titles.get(name, name)


def find_paper_row(name: str) -> str:
    """Find the row of papers' tables to compare an algorithm with: `SCL`, also of sattler-as-published."""
    return find_title(name).removesuffix(" as published")


def is_reference(name: str) -> bool:
    """Check whether an algorithm is a row to compare with and no competitor."""
    return ALGORITHMS[name].is_reference if name in ALGORITHMS else name in _references


def list_arena_members() -> list[str | dict[str, Any]]:
    """List the algorithms whose entries put them into the arena, as a file lists them."""
    return [
        {"name": entry.name, **entry.arena} if entry.arena else entry.name
        for entry in ALGORITHMS.values()
        if entry.arena is not None
    ]


def register_titles(titles: Mapping[str, str], references: Iterable[str] = ()) -> None:
    """Register the titles of algorithms whose plugins need not be loaded.

    Args:
        titles: name -> name in papers.
        references: names of those that are references.
    """
    _titles.update(titles)
    _references.update(references)


def explain_missing_name(settings: Mapping[str, Any]) -> str:
    """Explain why an algorithm given by settings without its name is refused."""
    problem = f"algorithm = {dict(settings)!r}: name is missing; "
    # A mapping under an algorithm's name is a common mistake in YAML: `algorithm: {ifca: {num_clusters: 2}}`.
    for name, inner in settings.items():
        if name in ALGORITHMS and isinstance(inner, Mapping | None):
            meant = ", ".join(["name: " + name, *(f"{key}: {value}" for key, value in (inner or {}).items())])
            return f"{problem}did you mean {{{meant}}}?"
    return f"{problem}known: {', '.join(ALGORITHMS)}"


def create_algorithm(name: str, settings: Mapping[str, Any] = MappingProxyType({})) -> Algorithm:
    """Create an algorithm with some settings changed, the others at the entry's defaults.

    A `clusterer` may leave out what stays at the default, its name included.

    Args:
        name: name of a registered algorithm.
        settings: key -> value, as a configuration has them.

    Raises:
        ValueError: unknown algorithm, or the clusterer of another one (a table would list the run under the
            wrong name).
        pydantic.ValidationError: unknown or impossible settings (also a ValueError).
    """
    if name not in ALGORITHMS:
        # Names of papers first: those of algorithms here are often spelt quite differently.
        near = NAMES_IN_PAPERS.get(name.lower()) or next(iter(get_close_matches(name, ALGORITHMS, n=1)), None)
        hint = f"did you mean '{near}'? " if near else ""
        raise ValueError(f"unknown algorithm '{name}'; {hint}known: {', '.join(ALGORITHMS)}")
    entry = ALGORITHMS[name]
    # Without defaults that follow from others, so that they follow from the new settings.
    values = {**_free_settings(entry), **settings}
    default = getattr(entry.settings, "clusterer", None)
    if isinstance(default, Clusterer):
        values["clusterer"] = _complete_clusterer(name, default, values["clusterer"])
    return entry.algorithm(type(entry.settings).model_validate(values))


def drop_derived_defaults(settings: Settings) -> dict[str, Any]:
    """Drop the settings that have the default which follows from the others.

    If one of the others is changed, they follow: as the server's learning rate follows its optimizer.
    """
    every = {name: getattr(settings, name) for name in type(settings).model_fields}
    values = {**every, **settings.model_dump()}
    for name, default_of in _find_derived_defaults(type(settings)).items():
        if values[name] == default_of(values):
            del values[name]
    return values


@cache
def _free_settings(entry: AlgorithmEntry) -> Mapping[str, Any]:
    """Drop an entry's derived defaults; cached, because a grid creates thousands of algorithms."""
    return drop_derived_defaults(entry.settings)


@cache
def _find_derived_defaults(kind: type[Settings]) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Find the fields whose default is computed from the others, with the function that computes it.

    Cached: pydantic inspects a signature for each of them.
    """
    fields = kind.model_fields.items()
    return {
        name: cast(Callable[[dict[str, Any]], Any], field.default_factory)
        for name, field in fields
        if field.default_factory_takes_validated_data
    }


def dump_settings(name: str, settings: Settings) -> dict[str, Any]:
    """Dump an algorithm's settings as a run stores them, so that `create_algorithm` reads the same.

    A key that is omitted at its class's default is there if the entry has another default: `create_algorithm`
    would take that one.
    """
    values = settings.model_dump(mode="json")
    defaults = ALGORITHMS[name].settings
    omitted = {key: getattr(settings, key) for key in type(settings).model_fields if key not in values}
    unlike_entry = {key: value for key, value in omitted.items() if value != getattr(defaults, key)}
    return {**values, **to_jsonable_python(unlike_entry)}


def _complete_clusterer(name: str, default: Clusterer, given: object) -> object:
    """Complete a clusterer's settings by the entry's defaults.

    Raises:
        ValueError: it is the clusterer of another algorithm.
    """
    if isinstance(given, Clusterer):
        given = given.model_dump()
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping):
        return given
    # The user's keys over the entry's: a key may be changed alone.
    chosen = {**default.model_dump(), **given}
    if chosen["name"] != default.name:
        raise ValueError(f"{name} clusters with '{default.name}', not '{chosen['name']}': name its algorithm")
    return chosen
