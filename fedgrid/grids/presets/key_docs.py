"""What the keys of a configuration mean: the docstrings below the fields of its sections, and their types."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from fedgrid.tracking.scoring.selection import text_of

YAML = {"None": "null", "True": "true", "False": "false"}
"""Python's values, which docstrings name, as a user types them."""
VALUES = re.compile(rf"\b({'|'.join(YAML)})\b")


def docs_of(model: type[BaseModel]) -> Mapping[str, str]:
    """Return field -> its docstring on one line, of a model and its bases; fields without one are left out.

    Empty for a class whose source is not at hand, as one that was typed into a notebook.
    """
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts |= _docstrings(base)
    return {name: VALUES.sub(lambda word: YAML[word[0]], " ".join(texts[name].split())) for name in texts}


@cache
def _docstrings(kind: type) -> Mapping[str, str]:
    """Return field -> docstring of what a class itself has. Pydantic would look for them in every import."""
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


def allowed(schema: Mapping[str, Any]) -> str:
    """Return in words which values a key's JSON Schema allows: `number > 0 or null`, `single or complete`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(allowed(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(map(text_of, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {allowed(schema.get('items', {}))}"
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


def settings_rows(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield key, default, allowed values and meaning of each setting; of a section, those of its keys."""
    kind = type(settings)
    properties = kind.model_json_schema().get("properties", {})
    meanings = docs_of(kind)
    # Those that are its own come first, those of every averaging algorithm after them.
    for key in sorted(properties, key=lambda key: key not in inspect.get_annotations(kind)):
        value = getattr(settings, key, None)
        if isinstance(value, BaseModel):
            yield from settings_rows(value, f"{prefix}{key}.")
        elif "const" not in properties[key]:
            default = text_of(to_jsonable_python(value)) if hasattr(settings, key) else "needed"
            yield f"{prefix}{key}", default, allowed(properties[key]), meanings.get(key, "")
