"""The page of the contract between server and clients, from the docstrings of its classes and hooks."""

from collections.abc import Iterator
from pathlib import Path

import fedgrid
from docs.reference import api
from docs.reference.markdown import page, table

SECTIONS = {
    "A round": "algorithms/contract/base.py",
    "Averaging": "algorithms/averaging/fedopt.py",
    "What travels": "algorithms/contract/orders.py",
    "A local rule": "algorithms/contract/local_rule.py",
    "A local method": "algorithms/contract/local_method.py",
    "An aggregator": "algorithms/contract/aggregator.py",
    "Updates": "algorithms/updates/updates.py",
    "Layouts and vectors": "algorithms/updates/source.py",
    "Groups of a split": "algorithms/contract/split.py",
    "Groups by position": "algorithms/clustering/splits.py",
    "A clusterer": "algorithms/clustering/clusterers.py",
    "Conditions of a run": "algorithms/contract/conditions.py",
    "An encoder": "algorithms/contract/encoder.py",
    "Settings": "algorithms/contract/section.py",
    "An entry": "algorithms/contract/entry.py",
}
"""Heading -> the module below `fedgrid/` whose exported names it has."""
EXAMPLES = Path(__file__).parents[1] / "examples"


def pages() -> dict[str, str]:
    """Write the page: path -> text."""
    return {
        "reference/contract.md": page(
            "# The contract between server and clients",
            "The server sends orders, and clients send replies. An algorithm is frozen settings, a few pure "
            "functions over an explicit state and, if its clients train differently, a local rule. All names "
            "here are imported from `fedgrid`. Start with [an algorithm of your own](../own-algorithm.md).",
            "Its concepts, with a file that uses each: [rivals](../rivals.md#twelve-concepts).",
            "Complete plugins, in `docs/examples/`; each runs as `fedgrid run quickstart --plugin FILE`:",
            table(("file", "what it shows"), _examples()),
            *(part for heading, module in SECTIONS.items() for part in _section(heading, module)),
        )
    }


def exported_names() -> frozenset[str]:
    """List the names that this page describes, so that the page of the API need not."""
    return frozenset(name for module in SECTIONS.values() for name in _names(module))


def _names(module: str) -> list[str]:
    return [name for name in fedgrid.__all__ if api.module_path(name) == module]


def _section(heading: str, module: str) -> Iterator[str]:
    yield f"## {heading}"
    yield from api.module_text(module)
    for name in _names(module):
        yield from api.describe(name)


def _examples() -> Iterator[tuple[str, str]]:
    for path in sorted(EXAMPLES.glob("*.py")):
        text = path.read_text()
        if "\nALGORITHMS" in text or "\nLOCAL_METHODS" in text:
            yield f"`{path.name}`", text.partition('"""')[2].partition("\n")[0].removesuffix('"""')
