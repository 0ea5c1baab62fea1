"""The page of the keys of a run, of a grid's file and of a search's file, from the models that read them."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined, to_jsonable_python

from docs.reference.markdown import code, page, paragraphs, table
from fedgrid.engine.federation.configuration.run_config import PLUGINS, Move, RunConfig
from fedgrid.engine.federation.training.settings import Schedule
from fedgrid.engine.federation.uplink.steps import STEPS
from fedgrid.engine.runtime.configuration.complete import DEFAULTS as OF_A_RUN
from fedgrid.grids.cli.actions.schema import schema
from fedgrid.grids.presets.axis_keys import SECTIONS
from fedgrid.grids.presets.key_docs import allowed, docs_of
from fedgrid.grids.presets.preset_files import KEYS
from fedgrid.grids.search.definition import DEFAULTS, OWN_KEYS
from fedgrid.grids.search.objectives import OBJECTIVES
from fedgrid.tracking.scoring.selection import text_of

HEADER = ("key", "default", "allowed", "meaning")
BY_DATA_SET = "by data set"
"""The default of keys that `runtime.configuration.complete` fills in."""


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    sections = [
        part
        for name in SECTIONS
        for part in (f"## {name}", *_section(name, RunConfig.model_fields[name].annotation))
    ]
    return {
        "reference/configuration.md": page(
            "# Configuration keys",
            "Keys of a grid's YAML file. On the command line: `KEY=VALUE`, with dots, as in "
            "`training.rounds=5`. Any key of a run can be an axis: `axes: {training.rounds: [5, 10]}`. "
            "`fedgrid list schema` prints the same as JSON Schema, by which editors complete and check "
            "files. How to write a file: [presets](../presets.md).",
            "## A run",
            table(HEADER, [row for row in _rows(RunConfig) if row[0].strip("`") not in {*SECTIONS, PLUGINS}]),
            "The settings of each algorithm: [algorithms](algorithms/index.md). "
            "Data sets, models and splits: [data](data.md).",
            *sections,
            "## uplink",
            "A list of steps, in this order; each has one key.",
            table(("step", "allowed", "meaning"), _steps()),
            "## training.schedule",
            " ".join(paragraphs(Schedule)[0].split()),
            table(HEADER, list(_rows(Schedule))),
            "## drift",
            "Of each client that moves.",
            table(HEADER[:1] + HEADER[2:], [(row[0], *row[2:]) for row in _rows(Move)]),
            "## A grid's file",
            "Beside the keys of a run, of which `dataset`, `split`, `clients`, `seed` and `algorithm` may be "
            "lists.",
            table(("key", "meaning"), _described([key for key in KEYS if key not in RunConfig.model_fields])),
            "## A search's file",
            "Beside the keys of a grid's file. How to: [searches](../searches.md).",
            table(("key", "default", "meaning"), _of_search()),
            table(("`objective`", "the score of a run", "needs the hidden groups"), _objectives()),
        )
    }


def _section(name: str, kind: type[BaseModel]) -> Iterator[str]:
    yield " ".join(paragraphs(kind)[0].split())
    yield table(HEADER, [(code(f"{name}.{row[0].strip('`')}"), *row[1:]) for row in _rows(kind)])


def _rows(kind: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    properties, meanings = kind.model_json_schema()["properties"], docs_of(kind)
    for key, field in kind.model_fields.items():
        default = field.get_default()
        if default is PydanticUndefined:
            default = OF_A_RUN.get(key, default)
        shown = BY_DATA_SET if default is PydanticUndefined else code(text_of(to_jsonable_python(default)))
        yield code(key), shown, allowed(properties[key]), meanings.get(key, "")


def _steps() -> Iterator[tuple[str, str, str]]:
    for name, kind in STEPS.items():
        about = " ".join(paragraphs(kind)[0].split())
        meaning = docs_of(kind).get(name, "")
        yield code(name), allowed(kind.model_json_schema()["properties"][name]), f"{about} {meaning}"


def _described(keys: list[str]) -> Iterator[tuple[str, str]]:
    properties = _properties()
    for key in keys:
        yield code(key), str(properties[key].get("description", ""))


def _of_search() -> Iterator[tuple[str, str, str]]:
    for key, meaning in _described(list(OWN_KEYS)):
        name = key.strip("`")
        values = ", ".join(map(code, _properties()[name].get("enum", [])))
        yield key, code(text_of(DEFAULTS[name])) if name in DEFAULTS else "", f"{meaning} {values}"


def _objectives() -> Iterator[tuple[str, str, str]]:
    for name, objective in OBJECTIVES.items():
        yield code(name), objective.words, "yes: an oracle" if objective.is_oracle else "no"


@cache
def _properties() -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema()["properties"]
    return properties
