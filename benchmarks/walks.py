"""List the modules through which a value passes, and the forms in which it does.

    python -m benchmarks.walks [TREE]

The values: an update to Table 1, a key to the round, a score to the report, a plugin's algorithm to its row.
Does one small run in this process with the code of TREE (a checkout; without it, this one), then its report.
Notes each call of a function of fedgrid that is given the value, and each that returns it. A *pass* leads
from one module to another; a *hop* is a pair of modules with any number of passes from the one to the other;
*both ways* counts the pairs with hops in both directions. Not noted is a value within an object that holds
all of a run, or of many (`WHOLE`), or that is no frozen dataclass.

A *form* is a type whose objects are handed from function to function to carry the value, or what was made of
it: a class of ours (of an update, those of `UPDATE_FORMS`), a dict with the value, a row of `clients.parquet`
(of an update), an Arrow table, a text, a number. Lists, and dicts of forms, are none, nor are the parts of a
form: arrays, one client's `Counts` in a report. The forms of a command are printed in the order in which they
were first seen, an update's until the row that has its test; each after the first is a *change of form*.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, fields, is_dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, TypeAlias

import numpy as np

ROOT = Path(__file__).parents[1]
PACKAGES = ("algorithms", "engine", "grids", "tracking")
PLUGIN = "followed"
"""Name of the plugin's algorithm, and of its file."""
PLUGIN_CODE = f"""
from fedgrid import AlgorithmEntry, FedOpt, FedOptSettings

ALGORITHMS = [
    AlgorithmEntry(
        name="{PLUGIN}",
        title="{PLUGIN.upper()}",
        summary="plain averaging",
        source="ours",
        algorithm=FedOpt,
        settings=FedOptSettings(),
    )
]
"""
Holds: TypeAlias = Callable[[Any], bool]
MAX_DEPTH = 4
"""Levels of lists, mappings and objects within one another that are searched."""
MAX_ENTRIES = 500
"""Entries of a list or mapping that is searched; a larger one is not."""
WHOLE_RUN_CLASSES = {
    *("RunConfig", "Federation", "Grid", "Preset", "Session", "Opened", "OpenRun", "Study", "GridFolder"),
}
"""Names of classes, in this code or earlier, that hold all of a run, or of many."""
UPDATE_CLASSES = {
    *("LocalResult", "Sent", "SentArray", "SentReply", "Reply", "TrainReport"),
    *("Updates", "Products", "Diagnostics", "RoundRecord", "Records", "Clustering", "PublishedClustering"),
}
"""Names of classes that hold an update, or what was made of it: for the hops."""
UPDATE_FORMS = {
    *("Sent", "SentArray", "SentReply", "Reply", "Updates", "State", "RunState", "Served"),
    *("EvaluateReport", "Evaluations", "ModelTests", "TestScores", "RoundRecord"),
    *("Records", "Clustering", "PublishedClustering", "RunResult", "Measure", "Cell", "Row", "Table"),
}
"""Names of classes that carry an update on its way, in this code or earlier: for the forms."""
FIRST_FORMS = {"run": {"Sent", "SentArray"}, "report": {"Arrow table"}}
"""Command -> the first form of an update, in this code or earlier: on its way to its row, and from there to
Table 1. Until then it is a model."""
TEST_COLUMN = "personalised_accuracy"
"""The column that has an update's test."""
SHARE = 0.4375
"""Share of the clients that take part: a value that nothing else in the run has."""
ARI = 0.5945945945945946
"""Adjusted Rand index of the run after its last round."""
RUN = {
    "dataset": "digits",
    "clients": 6,
    "algorithm": {"name": "sattler", "cooldown": 1, "epsilon_1": 1.0, "epsilon_2": 0.0},
    "training": {"rounds": 3, "local_epochs": 1},
    "split": {"kind": "overlapping-imbalanced", "draws": 40, "server_images": 50},
}


@dataclass(frozen=True)
class Case:
    """A value, and the run in which it is followed."""

    name: str
    holds: Holds
    forms: Collection[str] = ()
    """Names of the classes that count as forms; empty: all classes that hold the value."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the run."""
    elsewhere: tuple[str, ...] = ()
    """Modules whose names begin so are on the way to somewhere else."""
    report: bool = True
    """Whether it goes on to the report."""


@dataclass(frozen=True)
class Walk:
    """The modules that a value has passed, and the pairs of them between which it did."""

    modules: frozenset[str]
    hops: frozenset[tuple[str, str]]
    passes: int

    @property
    def both_ways(self) -> int:
        """Number of pairs of modules with hops in both directions."""
        return sum((to, start) in self.hops for start, to in self.hops) // 2


def match_value(value: float | str, classes: Collection[str] = ()) -> Holds:
    """Build a function that checks whether an object is, or holds, a value.

    As a number or within a text; an object of one of the classes counts as holding it.
    """

    def is_holder(given: Any, depth: int = MAX_DEPTH) -> bool:
        name = type(given).__name__
        if name in classes:
            return True
        match given:
            case float():
                return bool(given == value)
            case str():
                return str(value) in given
            case np.ndarray():
                return bool(given.dtype == np.float64 and given.size < MAX_ENTRIES and (given == value).any())
        inner = () if not depth or name in WHOLE_RUN_CLASSES else _list_parts(given)
        return len(inner) < MAX_ENTRIES and any(is_holder(each, depth - 1) for each in inner)

    return is_holder


def _list_parts(given: Any) -> Sequence[Any]:
    """List the entries of a collection or a mapping, or the fields of a frozen dataclass."""
    if isinstance(given, Mapping):
        return [*given.keys(), *given.values()]
    if isinstance(given, list | tuple | set | frozenset):
        return [*given]
    kind = type(given)
    if is_dataclass(kind) and kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return [getattr(given, each.name, None) for each in fields(kind)]
    return ()


def name_form(given: Any, case: Case) -> str | None:
    """Name the form in which an object carries the case's value, None if it does not."""
    name = type(given).__name__
    if type(given).__module__.startswith("pyarrow"):
        return "Arrow table" if case.forms and TEST_COLUMN in getattr(given, "column_names", ()) else None
    if name in case.forms:
        return name
    if isinstance(given, Mapping):
        if case.forms and TEST_COLUMN in given:
            return "row"
        if any(case.holds(inner) for inner in given.values() if not _list_parts(inner)):
            return "dict"
        return next(filter(None, (name_form(inner, case) for inner in given.values())), None)
    if isinstance(given, list | tuple | set | frozenset):
        return next(filter(None, (name_form(inner, case) for inner in given)), None)
    if isinstance(given, np.ndarray) or case.forms and is_dataclass(given):
        return None
    if isinstance(given, float | str):
        kind = "number" if isinstance(given, float) else "text"
        return kind if case.holds(given) else None
    names = [each.name for each in fields(given)] if is_dataclass(given) else []
    names = names or [*getattr(type(given), "model_fields", {})]
    values = [getattr(given, each, None) for each in names]
    return name if any(case.holds(value) for value in values) else None


def build_walk(threads: Iterable[Sequence[str]]) -> Walk:
    """Build the walk of a value that was in these modules, one after the other, in each of some threads."""
    lists = [list(modules) for modules in threads]
    steps = [pair for modules in lists for pair in zip(modules, modules[1:], strict=False)]
    passes = [(start, to) for start, to in steps if start != to]
    return Walk(frozenset(module for modules in lists for module in modules), frozenset(passes), len(passes))


@contextmanager
def follow_value(
    tree: Path, case: Case, forms: dict[str, None], first_forms: Collection[str]
) -> Iterator[dict[int, list[str]]]:
    """Note, by thread, the modules of a tree that are given the value in the block, or get it back.

    Args:
        tree: the code that runs.
        case: the value.
        forms: here its forms are noted, in their order.
        first_forms: an update's forms are noted from the first of these on.
    """
    passed: dict[int, list[str]] = {}
    names: dict[str, str] = {}
    at_work = threading.local()

    def find_module(frame: FrameType | None) -> str:
        """Find the module that a frame runs, empty if it is none of the packages'."""
        if frame is None:
            return ""
        file = frame.f_code.co_filename
        if file not in names:
            path = Path(file).resolve()
            parts = path.relative_to(tree).with_suffix("").parts if path.is_relative_to(tree) else ("",)
            parts = parts[1:] if parts[0] == "fedgrid" and len(parts) > 1 else parts
            names[file] = ".".join(parts) if parts[0] in PACKAGES else ""
        return names[file]

    def note_call(frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return") or not find_module(frame) or getattr(at_work, "now", False):
            return
        # Reading a property calls a function, which must not be noted in turn.
        at_work.now = True
        objects = [result] if event == "return" else [*frame.f_locals.values()]
        to = frame if event == "call" else frame.f_back
        while to is not None and not find_module(to):
            to = to.f_back
        module = find_module(to)
        if module and not module.startswith(case.elsewhere or ("-",)):
            if any(map(case.holds, objects)):
                passed.setdefault(threading.get_ident(), []).append(module)
            now = dict.fromkeys(filter(None, (name_form(given, case) for given in objects)))
            if forms or not case.forms or any(each in now for each in first_forms):
                forms.update(now)
        at_work.now = False

    threading.setprofile(note_call)
    sys.setprofile(note_call)
    try:
        yield passed
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


OTHER_PAGES = (
    *("grids.cli", "grids.trackers", "grids.display", "grids.browse", "tracking.report"),
    *("tracking.figures", "tracking.papers", "tracking.claims", "tracking.against"),
    *("tracking.tables.cost", "tracking.tables.personalisation", "tracking.scoring.cost"),
)
CASES = (
    Case("an update to Table 1", match_value(ARI, UPDATE_CLASSES), UPDATE_FORMS, elsewhere=OTHER_PAGES),
    Case(
        "the key participation to the round", match_value(SHARE), keys={"participation": SHARE}, report=False
    ),
    Case("a score to MLflow and to the report", match_value(ARI)),
    Case(
        "a plugin's algorithm from file to row",
        match_value(PLUGIN),
        keys={"algorithm": PLUGIN, "plugins": [f"{PLUGIN}.py"]},
    ),
)


def measure_tree(tree: Path) -> None:
    """Print the walks in the code of a tree, which this process imports."""
    # Imported before the walk begins: else its import would be noted as calls.
    import mlflow.tracking  # noqa: F401

    from fedgrid.grids.cli import main
    from tests.e2e.same_bytes_runs import in_words_of

    Path(f"{PLUGIN}.py").write_text(PLUGIN_CODE)
    for number, case in enumerate(CASES):
        name = f"walk{number}"
        Path(f"{name}.yaml").write_text(json.dumps(in_words_of(tree, {**RUN, **case.keys})))
        forms: list[dict[str, None]] = [{} for _ in range(1 + case.report)]
        threads: list[list[str]] = []
        for command, seen in zip(
            (["run", f"{name}.yaml", "--in-process"], ["report", name]), forms, strict=False
        ):
            sys.argv = ["fedgrid", *command, "--storage", name]
            with follow_value(tree, case, seen, FIRST_FORMS[command[0]]) as passed:
                try:
                    with redirect_stdout(StringIO()):
                        main.run_command()
                except SystemExit as end:
                    if end.code:
                        raise
            threads += passed.values()
        walk = build_walk(threads)
        counts = f"{len(walk.modules)} modules, {len(walk.hops)} hops, {walk.both_ways} both ways"
        print(f"{case.name}: {counts}, {walk.passes} passes")
        print("   " + " ".join(dict.fromkeys(module for each in threads for module in each)))
        for title, seen in zip(("run", "report"), forms, strict=False):
            until = list(seen)
            if case.forms and "row" in until and title == "run":
                until = until[: until.index("row") + 1]
            changes = len(until) - 1
            print(f"   {title}, {changes} changes of form: {' > '.join(until)}")


def main() -> None:
    """Measure a tree in a process of its own, below a folder that is deleted afterwards."""
    tree = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT).resolve()
    root = tree / "src" if (tree / "src").exists() else tree
    path = {"PYTHONPATH": f"{root}{os.pathsep}{ROOT}"}
    code = f"from benchmarks.walks import measure_tree, Path; measure_tree(Path({str(tree)!r}))"
    with TemporaryDirectory(prefix="walks-") as folder:
        environment = {**os.environ, **path, "FEDGRID_CACHE": folder}
        subprocess.run([sys.executable, "-P", "-c", code], env=environment, cwd=folder, check=True)


if __name__ == "__main__":
    main()
