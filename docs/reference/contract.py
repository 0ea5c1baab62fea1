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
RIVALS = "../../fedgrid/rivals"
CONCEPTS = [
    ("`AlgorithmEntry`", "name, settings, source and search space, in the list `ALGORITHMS`", "all"),
    ("`State`", "models, partition and arrays between two rounds", f"[fesem.py]({RIVALS}/fesem.py)"),
    ("`Updates`", "the replies of a round, read lazily", f"[fesem.py]({RIVALS}/fesem.py)"),
    (
        "`FedOpt`",
        "averaging in clusters; override `recluster`, or `aggregate`",
        f"[flexcfl.py]({RIVALS}/flexcfl.py)",
    ),
    ("`Message`", "what clients say of their data before round 1", f"[pacfl.py]({RIVALS}/pacfl.py)"),
    (
        "`Order`",
        "what a client does in a round: models, rule, payload, number of steps",
        f"[fedsoft.py]({RIVALS}/fedsoft.py)",
    ),
    ("`LocalRule`", "settings of a client's training, sent with the order", f"[fedbn.py]({RIVALS}/fedbn.py)"),
    ("`LocalSteps`", "its hooks in the training loop", f"[fedbabu.py]({RIVALS}/fedbabu.py)"),
    (
        "`LocalModel`",
        "the model in training, with batches and further optimizers",
        f"[ditto.py]({RIVALS}/ditto.py)",
    ),
    (
        "`Finished`",
        "outputs for the server, and memory for the client's next training",
        f"[apfl.py]({RIVALS}/apfl.py)",
    ),
    (
        "`Served`, `Adaptation`",
        "which model a client is tested with, after which rule",
        f"[fedrep.py]({RIVALS}/fedrep.py)",
    ),
    ("`Aggregator`", "another mean of a cluster's updates", "[robust means](../robust.md)"),
]
"""All that the algorithms of the package are made of: name, meaning, and where to see it."""


def pages() -> dict[str, str]:
    """Write the page: path -> text."""
    return {
        "reference/contract.md": page(
            "# The contract between server and clients",
            "The server sends orders, and clients send replies. An algorithm is frozen settings, a few pure "
            "functions over an explicit state and, if its clients train differently, a local rule. All names "
            "here are imported from `fedgrid`. Start with [an algorithm of your own](../own-algorithm.md).",
            "## Twelve concepts",
            table(("concept", "what it is", "a file that uses it"), CONCEPTS),
            "What a client keeps: entries of the run's own model that are `personal` are put in place, "
            "and cut out of updates, by the engine; arrays that a rule `remembers` are its own business. An "
            "`Adaptation` with `steps=0` trains nothing: its rule only puts the tested model together.",
            "## Examples",
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
