"""Read what the keys of a configuration mean from the docstrings below their fields, and what they allow."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.contract.section import find_default_name
from fedgrid.engine.runtime.configuration.sections import list_classes
from fedgrid.tracking.scoring.selection import format_value

YAML_WORDS = {"None": "null", "True": "true", "False": "false"}
"""Python's values, which docstrings name, -> what a user types in YAML."""
PYTHON_WORDS = re.compile(rf"\b({'|'.join(YAML_WORDS)})\b")


def read_field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Read field -> its docstring on one line, for a model and its bases; fields without one are left out.

    Empty for a class whose source is not available, as one that was typed into a notebook.
    """
    texts: dict[str, str] = {}
    # From the most general class on: a subclass may redefine an inherited field.
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts |= _read_docstrings(base)
    return {
        name: PYTHON_WORDS.sub(lambda word: YAML_WORDS[word[0]], " ".join(texts[name].split()))
        for name in texts
    }


@cache
def _read_docstrings(kind: type) -> Mapping[str, str]:
    """Read field -> docstring of a class itself, without its bases.

    Pydantic could collect them too, but would do so at every import of every section.
    """
    try:
        [body] = ast.parse(dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in pairwise(body.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                texts[name] = docstring
    return texts


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Describe which values a key's JSON Schema allows: `number > 0 or null`, `single or complete`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(describe_schema(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(map(format_value, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {describe_schema(schema.get('items', {}))}"
    if "$ref" in schema or schema.get("type") == "object":
        return "keys"
    bounds = [
        f"{sign} {schema[name]:.7g}"
        for name, sign in (
            ("exclusiveMinimum", ">"),
            ("minimum", ">="),
            ("exclusiveMaximum", "<"),
            ("maximum", "<="),
        )
        if name in schema
    ]
    return " ".join([str(schema.get("type", "any")), " and ".join(bounds)]).strip()


def list_settings(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """List key, default, allowed values and meaning of each setting; for a section, those of its keys."""
    kind = type(settings)
    properties = kind.model_json_schema().get("properties", {})
    meanings = read_field_docs(kind)
    # An algorithm's own settings come first, then those that it shares with all averaging algorithms.
    for key in sorted(properties, key=lambda key: key not in inspect.get_annotations(kind)):
        value, meaning = getattr(settings, key, None), meanings.get(key, "")
        classes = list_classes(kind.model_fields[key].annotation)
        if rows := list(list_settings(value, f"{prefix}{key}.")) if isinstance(value, BaseModel) else []:
            yield from rows
        elif len(classes) > 1:
            # The clusterer is part of the algorithm's name: there is no other to choose.
            if not isinstance(value, Clusterer):
                yield f"{prefix}{key}", format_value(value), _describe_choice(classes, value), meaning
        elif "const" not in properties[key]:
            default = format_value(to_jsonable_python(value)) if hasattr(settings, key) else "needed"
            yield f"{prefix}{key}", default, describe_schema(properties[key]), meaning


def _describe_choice(classes: Iterable[type[BaseModel]], default: object) -> str:
    """Describe what can be chosen: `mean or krum (attackers, keep)`, each with its settings."""
    words = []
    for kind in classes:
        keys = ", ".join(key for key in kind.model_fields if key != "name")
        words.append(f"{find_default_name(kind)} ({keys})" if keys else find_default_name(kind))
    return " or ".join([*words, "null"] if default is None else words)
