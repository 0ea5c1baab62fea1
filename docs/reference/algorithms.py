"""One page an algorithm, and the list of them: from the registry, the settings and the docstrings."""

import sys
from collections.abc import Iterator

from docs.reference.markdown import SECTIONS, code, linked, page, paragraphs, sections, table
from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.clustering.clusterers import Clusterer
from fedgrid.algorithms.contract.base import Algorithm, Settings
from fedgrid.algorithms.contract.entry import AlgorithmEntry
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.grids.presets.key_docs import list_settings, read_field_docs

HEADER = ("setting", "default", "allowed", "meaning")
ROUNDS = 50
"""Of the run whose search space is shown."""
UP = "../../"
"""From these pages to docs/."""
HOW_TO = {"Absent clients": "How to have them: [clients that come and go](../../clients-come-and-go.md)."}
"""What follows on a section of a docstring."""
ALL_AVERAGING = "Settings of every averaging algorithm"


def pages() -> dict[str, str]:
    """Return path -> text of the pages."""
    written = {f"reference/algorithms/{entry.name}.md": _page(entry) for entry in ALGORITHMS.values()}
    return {"reference/algorithms/index.md": _index(), **written}


def list_classes(entry: AlgorithmEntry) -> list[type[Algorithm]]:
    """Return an algorithm's class and those that it derives from, `FedOpt` and `Algorithm` at the end."""
    return [kind for kind in entry.algorithm.__mro__ if issubclass(kind, Algorithm)]


def _index() -> str:
    rows = [
        (f"[{code(entry.name)}]({entry.name}.md)", entry.title, entry.summary, linked(entry.source, UP))
        for entry in ALGORITHMS.values()
    ]
    methods = [
        (code(name), " ".join(_first_parts(kind)), ", ".join(_keys(kind)))
        for name, kind in LOCAL_METHODS.items()
    ]
    return page(
        "# Algorithms",
        "On the terminal: `fedgrid list algorithms`; with a name it shows the settings of one. "
        "Set one with `algorithm.KEY=VALUE`, or in a file: `algorithm: {name: NAME, KEY: VALUE}`. "
        "Which to take: [which algorithm](../../which-algorithm.md). "
        "How each works on a toy: [toys](../../toys.md).",
        table(("name", "in papers", "what it does", "source"), rows),
        "## Local training under other algorithms",
        "Values of the setting `local`, which algorithms that average have "
        "([how to](../../local-training.md)).",
        table(("`local`", "what clients do", "settings (default)"), methods),
    )


def _page(entry: AlgorithmEntry) -> str:
    classes = list_classes(entry)
    own = [kind for kind in classes if kind not in (FedOpt, Algorithm)] or classes[:1]
    docs = [sections(kind) for kind in classes]
    about = [*_about(entry.algorithm), *(sections(kind).get("", "") for kind in own)]
    clusterer = getattr(entry.settings, "clusterer", None)
    if isinstance(clusterer, Clusterer):
        about += [f"The clusterer {code(clusterer.name)}: {paragraphs(type(clusterer))[0]}"]
        about += paragraphs(type(clusterer))[1:]
    described = []
    for name, heading in SECTIONS.items():
        texts = [parts[name] for parts in docs if name in parts]
        # What may go wrong adds up; of the rest, what the algorithm says replaces what all of them do.
        chosen = texts if name == "Degenerate cases" else texts[:1]
        how_to = [HOW_TO[name]] if name in HOW_TO else []
        described += [f"## {heading}", *chosen, *how_to] if chosen else []
    return page(
        f"# {entry.title}",
        f"{code(entry.name)}: {entry.summary}.",
        "" if _number(entry.source) in " ".join(about) else f"Source: {linked(entry.source, UP)}.",
        entry.truth_line,
        *(linked(text, UP) for text in about),
        *_settings(entry.settings),
        *described,
        *_numbers(entry),
        *_search(entry.name),
    )


def _about(kind: type[Algorithm]) -> list[str]:
    """Return what the module of a class says, without its first line and its legend of shapes."""
    return [text for text in paragraphs(sys.modules[kind.__module__])[1:] if not text.startswith("Shapes:")]


def _number(source: str) -> str:
    """Return a paper's number, or its first author."""
    return source.partition("arXiv:")[2] or source.partition(" ")[0]


def _settings(settings: Settings) -> Iterator[str]:
    of_all = set(FedOptSettings.model_fields) if type(settings) is not FedOptSettings else set()
    rows = [
        (code(key), code(default), allowed, text) for key, default, allowed, text in list_settings(settings)
    ]
    own = [row for row in rows if row[0].strip("`") not in of_all]
    shared = [row for row in rows if row[0].strip("`") in of_all]
    yield "## Settings"
    yield table(HEADER, own) or "It has none of its own."
    if shared:
        yield f"### {ALL_AVERAGING}"
        yield table(HEADER, shared)


def _numbers(entry: AlgorithmEntry) -> Iterator[str]:
    """Yield the numbers that an entry declares of its own."""
    if entry.numbers:
        yield "## Numbers of its own"
        yield table(("number", "meaning"), [(code(one.name), one.meaning) for one in entry.numbers])


def _search(name: str) -> Iterator[str]:
    """Yield what `fedgrid search` and `fedgrid arena` try, if they know."""
    space = ALGORITHMS[name].build_space(ROUNDS)
    if not space:
        return
    yield "## Search space"
    yield f"What `fedgrid search {name}` tries, here for runs of {ROUNDS} rounds."
    yield table(("setting", "values"), [(code(key), _range(values)) for key, values in space.items()])


def _range(values: object) -> str:
    if not isinstance(values, dict):
        return ", ".join(map(code, values if isinstance(values, list) else [values]))
    step = f", in steps of {values['step']}" if "step" in values else ""
    return f"{values['low']} to {values['high']}{step}{', by ratio' if values.get('log') else ''}"


def _first_parts(kind: type) -> list[str]:
    return paragraphs(kind)[:2]


def _keys(kind: type) -> list[str]:
    meanings = read_field_docs(kind)
    return [
        f"`{key}` ({field.get_default()}){': ' + meanings[key] if key in meanings else ''}"
        for key, field in kind.model_fields.items()
        if key != "name"
    ]
