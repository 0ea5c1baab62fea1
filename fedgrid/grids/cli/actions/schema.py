"""Build the JSON Schema of a grid's or a search's YAML file, by which editors complete and check its keys.

It is made from the models that read the file. It allows a little more than they do: rules about several keys
are theirs alone, and `fedgrid run FILE --dry-run` checks them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.registry import ALGORITHMS, ARENA
from fedgrid.engine.federation.configuration.run_config import PLUGINS_KEY, AlgorithmSection, RunConfig
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS, list_own_kinds
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.data.own_images import OWN_FORMATS
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SPLIT, list_axis_keys
from fedgrid.grids.presets.key_docs import read_field_docs
from fedgrid.grids.presets.preset_files import AXES_KEY, PRESET_KEYS, SEARCH_KEY, SEEDS, list_presets
from fedgrid.grids.presets.read_preset import OVERRIDABLE
from fedgrid.grids.search.definition import OWN_KEYS
from fedgrid.grids.search.early_stop import EARLY_STOP
from fedgrid.grids.search.objectives import OBJECTIVES
from fedgrid.grids.search.searchers import SEARCHERS
from fedgrid.grids.search.space import RANGE_KEYS

Schema = dict[str, Any]

SCHEMA_DIALECT = "http://json-schema.org/draft-07/schema#"
"""Dialect of JSON Schema that the YAML servers of editors read."""
EDITOR_LINE = "# yaml-language-server: $schema={}"
"""First line of a file, which tells an editor its schema."""
SEED_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[\d., ]+$"}]}


def build_schema() -> Schema:
    """Build the schema of a file, with the algorithms, models and data sets that are registered."""
    run = RunConfig.model_json_schema()
    definitions = {name: _describe_section(name, part) for name, part in run.pop("$defs", {}).items()}
    del definitions[AlgorithmSection.__name__]  # A file's schema has one of each algorithm.
    definitions["Split"]["properties"]["kind"] |= _allow_several({"enum": list(KINDS)})
    definitions["Split"]["properties"]["kind"].pop("type")
    # The model accepts further keys, which may be settings of a plugin's split; those of loaded plugins are
    # added below, and an editor marks all others.
    definitions["Split"]["additionalProperties"] = False
    for kind in list_own_kinds():
        own = _describe_properties(kind.rule.model_json_schema()["properties"], read_field_docs(kind.rule))
        definitions["Split"]["properties"] |= {key: own[key] for key in kind.fields}
    keys = {
        name: _describe_key(name, run["properties"][name])
        for name in RunConfig.model_fields
        if name != PLUGINS_KEY
    }
    meanings = read_field_docs(RunConfig)
    for name in keys:
        if name in meanings:
            keys[name] = {"description": meanings[name], **keys[name]}
    return {
        "$schema": SCHEMA_DIALECT,
        "title": "A grid or a search of fedgrid",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: keys.get(name) or _describe_file_key(name, keys) for name in (*PRESET_KEYS, *OWN_KEYS)
        },
        "definitions": definitions,
    }


def _describe_section(name: str, part: Schema) -> Schema:
    """Build a section's schema with the meaning of its keys, all of which a file may leave out."""
    kind = {each.__name__: each for each in _list_models(RunConfig)}.get(name)
    if kind is None:
        return _move_references(part)
    if kind in (field.annotation for field in RunConfig.model_fields.values()):
        # A section of a run: a file may give some of its keys, and the others have defaults.
        part = {key: value for key, value in part.items() if key not in ("required", "title")}
    return _move_references(
        {**part, "properties": _describe_properties(part["properties"], read_field_docs(kind))}
    )


def _list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    """List the models within a type, and those of their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _list_models(field.annotation)
    for part in get_args(annotation):
        yield from _list_models(part)


def _describe_properties(properties: Mapping[str, Schema], meanings: Mapping[str, str]) -> Schema:
    """Add the meanings to the schemas of keys."""
    described = {}
    for name, one in properties.items():
        plain = {key: value for key, value in one.items() if key != "title"}
        described[name] = plain | ({"description": meanings[name]} if name in meanings else {})
    return described


def _describe_key(name: str, usual: Schema) -> Schema:
    """Build the schema of a key of a run, as a file may give it."""
    if name == "dataset":
        own = {"type": "string", "pattern": f"^({'|'.join(OWN_FORMATS)}):.+"}
        one: Schema = {"anyOf": [{"enum": list(DATASETS)}, own]}
    elif name == "seed":
        one = SEED_SCHEMA
    elif name == ALGORITHM:
        one = {"anyOf": [{"enum": [*ALGORITHMS, ARENA]}, *map(_describe_algorithm, ALGORITHMS)]}
    elif name == SPLIT:
        one = {"anyOf": [{"enum": list(KINDS)}, {"$ref": "#/definitions/Split"}]}
    elif name == "model":
        one = {"enum": list(MODELS)}
    else:
        one = {
            key: value for key, value in _move_references(usual).items() if key not in ("title", "default")
        }
    return _allow_several(one) if name in AXES else one


def _describe_algorithm(name: str) -> Schema:
    """Build the schema of an algorithm with settings; each has its own defaults."""
    entry = ALGORITHMS[name]
    settings = type(entry.settings).model_json_schema()
    properties = _describe_properties(settings.get("properties", {}), read_field_docs(type(entry.settings)))
    for name in properties:
        value = getattr(entry.settings, name)
        if isinstance(value, Clusterer):
            properties[name] = _describe_clusterer(value)
        elif "$ref" in str(properties[name]):
            # A part that may be one of several classes: its keys depend on its name.
            properties[name] = {"description": properties[name].get("description", "")}
        elif isinstance(value, bool | int | float | str | None):
            properties[name]["default"] = value
    return {
        "type": "object",
        "title": f"{entry.name}: {entry.summary}",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {"name": {"const": entry.name, "description": entry.summary}, **properties},
    }


def _describe_clusterer(clusterer: Clusterer) -> Schema:
    """Build the schema of a clusterer's settings."""
    own = type(clusterer).model_json_schema()
    properties = _describe_properties(own["properties"], read_field_docs(type(clusterer)))
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _allow_several(one: Schema) -> Schema:
    """Build the schema that allows one value, or a list of them."""
    return {"anyOf": [one, {"type": "array", "minItems": 1, "items": one}]}


def _describe_file_key(name: str, keys: Mapping[str, Schema]) -> Schema:
    """Build the schema of a key of the file that is no key of a run."""
    return (_describe_grid_keys(keys) | _describe_search_keys())[name]


def _describe_grid_keys(keys: Mapping[str, Schema]) -> dict[str, Schema]:
    """Build the schemas of the further keys of a grid's file."""
    axes: Schema = {axis: {} for axis in list_axis_keys()}
    then = {key: (keys[key] if key != ALGORITHM else {"type": "object"}) for key in OVERRIDABLE}
    return {
        SEEDS: {**_allow_several(SEED_SCHEMA), "description": "As seed; also 0..4, both ends included."},
        AXES_KEY: _build_object(
            axes, "Any key of a run, with dots, and its values: training.rounds: [5, 10]."
        ),
        "filter": _build_object(axes, "Keep only the runs whose axes have these values."),
        "exclude": {
            "type": "array",
            "items": _build_object(axes),
            "description": "Leave out the runs whose axes have these values.",
        },
        "overrides": {
            "type": "array",
            "description": "Keys for some runs only.",
            "items": _build_object(
                {"when": _build_object(axes, "Which runs."), "then": _build_object(then, "Their keys.")}
            ),
        },
        "base": {
            "type": "string",
            "description": f"A preset, or a file beside this one. Presets: {', '.join(list_presets())}.",
        },
        "plugins": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Python files with algorithms, models, splits or others of your own.",
        },
    }


def _describe_search_keys() -> dict[str, Schema]:
    """Build the schemas of the further keys of a search's file."""
    ranges = {key: {"type": "boolean" if key == "log" else "number"} for key in RANGE_KEYS}
    space = {"type": "object", "additionalProperties": False, "properties": ranges}
    return {
        SEARCH_KEY: {
            "type": "object",
            "additionalProperties": {"anyOf": [space, {"type": "array", "minItems": 1}]},
            "description": "Settings of the algorithm, and training.KEY, each with a range or a list.",
        },
        "trials": {"type": "integer", "minimum": 1, "description": "Number of settings to try."},
        "searcher": {"enum": list(SEARCHERS), "description": "How settings are drawn from the space."},
        "objective": {"enum": list(OBJECTIVES), "description": "What is maximised; ari is an oracle."},
        EARLY_STOP: {
            "anyOf": [{"type": "boolean"}, {"type": "object", "required": ["at"]}],
            "description": "Stop the worse trials early: true, or at: [ROUND, ...] and keep: SHARE.",
        },
    }


def _build_object(properties: Mapping[str, Schema], meaning: str = "") -> Schema:
    """Build the schema of an object with these keys and no others."""
    described = {"description": meaning} if meaning else {}
    return {"type": "object", "additionalProperties": False, "properties": dict(properties), **described}


def _move_references(part: Schema) -> Schema:
    """Change the references of a schema from pydantic's `$defs` to `definitions`, as the dialect has them."""
    if isinstance(part, dict):
        return {
            key: value.replace("#/$defs/", "#/definitions/") if key == "$ref" else _move_references(value)
            for key, value in part.items()
        }
    return [_move_references(one) for one in part] if isinstance(part, list) else part
