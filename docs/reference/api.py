"""The page of what `fedgrid` exports: signatures, fields and docstrings, read from the source."""

import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import griffe

import fedgrid
from docs.reference.markdown import code, page, table

HOUSE = Path(fedgrid.__file__).parent
GROUPS = {
    "Running and reading": (
        *("run", "run_grid", "load", "RunConfig", "Run", "Study"),
        *("figures", "FedgridError"),
    ),
    "Models and data of your own": ("ModelEntry", "pretrained", "OwnDataset", "ImageSet", "Inputs"),
    "Splits of your own": ("OwnSplit", "ImagePool"),
    "Algorithms to derive from": ("Ocfl", "OcflSettings"),
    "Analyses of your own": ("Analysis", "AnalysisSettings", "Artifacts"),
    "Trackers of your own": ("Tracker", "TrackedGrid", "TrackedRun"),
}
"""All other names are on the page of the contract."""
LINE = 100
"""Characters of a line of a signature."""
OPTIONS = {
    "returns_multiple_items": False,
    "returns_named_value": False,
    # A class documents the arguments of the constructor that it inherits.
    "warn_missing_types": False,
    "warn_unknown_params": False,
}
"""How docstrings are parsed."""
STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


def pages() -> dict[str, str]:
    """Write the page: path -> text."""
    parts = [
        part
        for title, names in GROUPS.items()
        for part in (f"## {title}", *(part for name in names for part in describe(name)))
    ]
    return {
        "reference/api.md": page(
            "# Python",
            "What `import fedgrid` offers. These names stay; all others may move. On the terminal: "
            "`python -m pydoc fedgrid.run`. For an algorithm of your own: [how to](../own-algorithm.md), and "
            "the other names, [the contract](contract.md).",
            *parts,
        )
    }


def describe(name: str) -> Iterator[str]:
    """Yield the parts of a page about an exported name."""
    yield f"### {name}"
    if name == "figures":
        yield from _text(_module("tracking/figures/__init__.py"))
        return
    thing = _module(module_path(name))[name]
    if isinstance(thing, griffe.Class):
        yield from _class(thing)
    elif isinstance(thing, griffe.Function):
        yield from _function(thing)
    else:
        yield f"```python\n{name} = {thing.value}\n```"
        yield from _text(thing)


def module_path(name: str) -> str:
    """Find the file below `fedgrid/` that defines an exported name."""
    if name == "figures":
        return "tracking/figures/__init__.py"
    module = fedgrid._MODULES.get(name) or getattr(fedgrid, name).__module__.removeprefix("fedgrid.")
    return f"{module.replace('.', '/')}.py"


def module_text(path: str) -> Iterator[str]:
    """Yield the docstring of a module below `fedgrid/`."""
    yield from _text(_module(path))


@cache
def _module(path: str) -> griffe.Module:
    file = HOUSE / path
    return griffe.visit(
        "fedgrid", file, file.read_text(), docstring_parser=griffe.Parser.google, docstring_options=OPTIONS
    )


def _class(thing: griffe.Class) -> Iterator[str]:
    bases = ", ".join(str(base) for base in thing.bases)
    yield f"```python\nclass {thing.name}{f'({bases})' if bases else ''}\n```"
    yield from _text(thing)
    public = [member for name, member in thing.members.items() if not name.startswith("_")]
    attributes = [member for member in public if isinstance(member, griffe.Attribute)]
    rows = [_row(attribute) for attribute in attributes if attribute.docstring or attribute.annotation]
    yield table(("name", "type", "default", "meaning"), rows)
    for method in public:
        if isinstance(method, griffe.Function):
            yield f"**`{thing.name}.{method.name}`**"
            yield from _function(method)


def _row(attribute: griffe.Attribute) -> tuple[str, str, str, str]:
    """Return the cells of a field or property."""
    value = "" if attribute.value is None or "property" in attribute.labels else str(attribute.value)
    default = "" if value.startswith("Field(") or "\n" in value else value
    meaning = attribute.docstring.value if attribute.docstring else ""
    return code(attribute.name), code(attribute.annotation or ""), code(default), meaning


def _function(thing: griffe.Function) -> Iterator[str]:
    yield f"```python\n{_signature(thing)}\n```"
    yield from _text(thing)


def _signature(thing: griffe.Function) -> str:
    """Return a function's `def` line, a line a parameter if it is long."""
    line = f"def {thing.signature()}"
    if len(line) <= LINE:
        return line
    parameters: list[str] = []
    for parameter in thing.parameters:
        stars = STARS.get(parameter.kind, "")
        if parameter.kind is griffe.ParameterKind.keyword_only and "*" not in "".join(parameters):
            parameters.append("*")
        default = "" if stars or parameter.default is None else f" = {parameter.default}"
        parameters.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
    lines = "\n".join(f"    {parameter}," for parameter in parameters if not parameter.startswith("self:"))
    return f"def {thing.name}(\n{lines}\n) -> {thing.returns}"


def _are_documented_fields(thing: griffe.Object, names: Sequence[str]) -> bool:
    """Check whether these arguments are fields of a class that have docstrings of their own."""
    members = thing.members if isinstance(thing, griffe.Class) else {}
    return bool(names) and all(name in members and members[name].has_docstring for name in names)


def _text(thing: griffe.Object) -> Iterator[str]:
    """Yield the parts of a docstring: its text, arguments, fields, what it returns and raises, examples."""
    kinds = griffe.DocstringSectionKind
    for section in thing.docstring.parsed if thing.docstring else ():
        if section.kind is kinds.text:
            yield section.value
        elif section.kind in (kinds.parameters, kinds.attributes):
            if _are_documented_fields(thing, [item.name for item in section.value]):
                continue  # The page has them below, in full.
            yield _items((f"`{item.name}`", item.description) for item in section.value)
        elif section.kind is kinds.examples:
            yield from (_example(text) if kind is kinds.examples else text for kind, text in section.value)
        elif section.kind is kinds.admonition:
            text = section.value.contents
            yield f"{section.title}:"
            yield _example(text) if text.startswith(">>>") else text
        else:
            items = ((_what(item), item.description) for item in section.value)
            yield f"{section.kind.value.capitalize()}:\n\n{_items(items)}"


def _example(text: str) -> str:
    return f"```pycon\n{text}\n```"


def _what(item: griffe.DocstringElement) -> str:
    return code(item.annotation or "")


def _items(items: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> str:
    texts = (f"{name}: {text}" if name else text for name, text in items)
    return "\n".join(f"- {textwrap.indent(text, '  ').strip()}" for text in texts)
