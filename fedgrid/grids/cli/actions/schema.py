"""Build the JSON Schema of a grid's or a search's YAML file, by which editors complete and check its keys.

It is made from the models that read the file. It allows a little more than they do: rules about several keys
are theirs alone, and `fedgrid run FILE --dry-run` checks them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.registry import ALGORITHMS, ARENA
from fedgrid.engine.federation.configuration.run_config import PLUGINS, AlgorithmSection, RunConfig
from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.dealing.kinds import KINDS, own_kinds
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.runtime.data.own_images import OWN_FORMATS
from fedgrid.grids.presets.axis_keys import ALGORITHM, AXES, SPLIT, axis_keys
from fedgrid.grids.presets.key_docs import docs_of
from fedgrid.grids.presets.preset_files import AXES_KEY, KEYS, SEARCH, SEEDS, preset_names
from fedgrid.grids.presets.read_preset import OVERRIDABLE
from fedgrid.grids.search.definition import OWN_KEYS
from fedgrid.grids.search.early_stop import EARLY_STOP
from fedgrid.grids.search.objectives import OBJECTIVES
from fedgrid.grids.search.space import RANGE_KEYS
from fedgrid.grids.search.suggest import SEARCHERS

Schema = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
"""Dialect of JSON Schema that the YAML servers of editors read."""
EDITOR_LINE = "# yaml-language-server: $schema={}"
"""First line of a file, which tells an editor its schema."""
SEED = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^[\d., ]+$"}]}


def schema() -> Schema:
    """Build the schema of a file, with the algorithms, models and data sets that are registered."""
    run = RunConfig.model_json_schema()
    definitions = {name: _describe(name, part) for name, part in run.pop("$defs", {}).items()}
    del definitions[AlgorithmSection.__name__]  # A file's schema has one of each algorithm.
    definitions["Split"]["properties"]["kind"] |= _one_or_several({"enum": list(KINDS)})
    definitions["Split"]["properties"]["kind"].pop("type")
    # The model accepts further keys, which may be settings of a plugin's split; those of loaded plugins are
    # added below, and an editor marks all others.
    definitions["Split"]["additionalProperties"] = False
    for kind in own_kinds():
        own = _properties(kind.rule.model_json_schema()["properties"], docs_of(kind.rule))
        definitions["Split"]["properties"] |= {key: own[key] for key in kind.fields}
    keys = {
        name: _of_key(name, run["properties"][name]) for name in RunConfig.model_fields if name != PLUGINS
    }
    meanings = docs_of(RunConfig)
    for name in keys:
        if name in meanings:
            keys[name] = {"description": meanings[name], **keys[name]}
    return {
        "$schema": DIALECT,
        "title": "A grid or a search of fedgrid",
        "type": "object",
        "additionalProperties": False,
        "properties": {name: keys.get(name) or _own_key(name, keys) for name in (*KEYS, *OWN_KEYS)},
        "definitions": definitions,
    }


def _describe(name: str, part: Schema) -> Schema:
    """Build a section's schema with the meaning of its keys, all of which a file may leave out."""
    kind = {each.__name__: each for each in _models(RunConfig)}.get(name)
    if kind is None:
        return _local(part)
    if kind in (field.annotation for field in RunConfig.model_fields.values()):
        # A section of a run: a file may give some of its keys, and the others have defaults.
        part = {key: value for key, value in part.items() if key not in ("required", "title")}
    return _local({**part, "properties": _properties(part["properties"], docs_of(kind))})


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """List the models within a type, and those of their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _models(field.annotation)
    for part in get_args(annotation):
        yield from _models(part)


def _properties(properties: Mapping[str, Schema], meanings: Mapping[str, str]) -> Schema:
    """Add the meanings to the schemas of keys."""
    described = {}
    for name, one in properties.items():
        plain = {key: value for key, value in one.items() if key != "title"}
        described[name] = plain | ({"description": meanings[name]} if name in meanings else {})
    return described


def _of_key(name: str, usual: Schema) -> Schema:
    """Build the schema of a key of a run, as a file may give it."""
    if name == "dataset":
        own = {"type": "string", "pattern": f"^({'|'.join(OWN_FORMATS)}):.+"}
        one: Schema = {"anyOf": [{"enum": list(DATASETS)}, own]}
    elif name == "seed":
        one = SEED
    elif name == ALGORITHM:
        one = {"anyOf": [{"enum": [*ALGORITHMS, ARENA]}, *map(_algorithm, ALGORITHMS)]}
    elif name == SPLIT:
        one = {"anyOf": [{"enum": list(KINDS)}, {"$ref": "#/definitions/Split"}]}
    elif name == "model":
        one = {"enum": list(MODELS)}
    else:
        one = {key: value for key, value in _local(usual).items() if key not in ("title", "default")}
    return _one_or_several(one) if name in AXES else one


def _algorithm(name: str) -> Schema:
    """Build the schema of an algorithm with settings; each has its own defaults."""
    entry = ALGORITHMS[name]
    settings = type(entry.settings).model_json_schema()
    properties = _properties(settings.get("properties", {}), docs_of(type(entry.settings)))
    for name in properties:
        value = getattr(entry.settings, name)
        if isinstance(value, Clusterer):
            properties[name] = _clusterer(value)
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


def _clusterer(clusterer: Clusterer) -> Schema:
    """Build the schema of a clusterer's settings."""
    own = type(clusterer).model_json_schema()
    properties = _properties(own["properties"], docs_of(type(clusterer)))
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _one_or_several(one: Schema) -> Schema:
    """Build the schema that allows one value, or a list of them."""
    return {"anyOf": [one, {"type": "array", "minItems": 1, "items": one}]}


def _own_key(name: str, keys: Mapping[str, Schema]) -> Schema:
    """Build the schema of a key of the file that is no key of a run."""
    return (_keys_of_grids(keys) | _keys_of_searches())[name]


def _keys_of_grids(keys: Mapping[str, Schema]) -> dict[str, Schema]:
    """Build the schemas of the further keys of a grid's file."""
    axes: Schema = {axis: {} for axis in axis_keys()}
    then = {key: (keys[key] if key != ALGORITHM else {"type": "object"}) for key in OVERRIDABLE}
    return {
        SEEDS: {**_one_or_several(SEED), "description": "As seed; also 0..4, both ends included."},
        AXES_KEY: _object(axes, "Any key of a run, with dots, and its values: training.rounds: [5, 10]."),
        "filter": _object(axes, "Keep only the runs whose axes have these values."),
        "exclude": {
            "type": "array",
            "items": _object(axes),
            "description": "Leave out the runs whose axes have these values.",
        },
        "overrides": {
            "type": "array",
            "description": "Keys for some runs only.",
            "items": _object({"when": _object(axes, "Which runs."), "then": _object(then, "Their keys.")}),
        },
        "base": {
            "type": "string",
            "description": f"A preset, or a file beside this one. Presets: {', '.join(preset_names())}.",
        },
        "plugins": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Python files with algorithms, models, splits or others of your own.",
        },
    }


def _keys_of_searches() -> dict[str, Schema]:
    """Build the schemas of the further keys of a search's file."""
    ranges = {key: {"type": "boolean" if key == "log" else "number"} for key in RANGE_KEYS}
    space = {"type": "object", "additionalProperties": False, "properties": ranges}
    return {
        SEARCH: {
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


def _object(properties: Mapping[str, Schema], meaning: str = "") -> Schema:
    """Build the schema of an object with these keys and no others."""
    described = {"description": meaning} if meaning else {}
    return {"type": "object", "additionalProperties": False, "properties": dict(properties), **described}


def _local(part: Schema) -> Schema:
    """Change the references of a schema from pydantic's `$defs` to `definitions`, as the dialect has them."""
    if isinstance(part, dict):
        return {
            key: value.replace("#/$defs/", "#/definitions/") if key == "$ref" else _local(value)
            for key, value in part.items()
        }
    return [_local(one) for one in part] if isinstance(part, list) else part
