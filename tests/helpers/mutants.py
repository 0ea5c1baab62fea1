"""Check whether a room's tests notice faults: small faults are put into its code, one at a time.

    python -m tests.helpers.mutants fedgrid/engine/federation/uplink --tests tests/engine/federation/uplink
        [--count 16] [--seed 0] [--before COMMIT]

A mutant is the code with one operator, number or truth value changed, or with one call left out. It is killed
if a test fails, or takes ten times as long. With `--before` the tests of an earlier commit run against the
same mutants: deleting tests is right if those that are left kill as many. Survivors are printed with their
lines; some change nothing that anybody could see.
"""

import argparse
import ast
import copy
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SWAPPED: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
IMPORTED_ONCE = (
    "torch",
    "numpy",
    "pandas",
    "pyarrow.parquet",
    "sklearn.cluster",
    "pydantic",
    "pytest",
    "rich",
)
"""Libraries that are loaded before the first mutant: each of its processes is a fork."""
TREE = ("fedgrid", "tests", "benchmarks", "docs", "pyproject.toml", "README.md", "CHANGELOG.md")
TIMES_LONGER, LEAST = 10, 60
"""A mutant is stopped after so many times the tests' own seconds, and after so many seconds at least."""


@dataclass(frozen=True)
class Mutant:
    """A file with one fault."""

    file: Path
    line: int
    change: str
    text: str
    """The whole file, with the fault."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.change}"


def make_mutants(file: Path, text: str) -> Iterator[Mutant]:
    """Yield all mutants of a file: of the code in its functions, but for what they raise."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _places(ast.parse(text)):
        for mutate in (_swap_operators, _change_constant, _leave_call_out):
            old = ast.unparse(node)
            if (changed := mutate(copy.deepcopy(node))) is None:
                continue
            new = ast.unparse(changed)
            first = starts[node.lineno - 1] + node.col_offset
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            last = starts[node.end_lineno - 1] + node.end_col_offset
            inner = new if isinstance(changed, ast.stmt) else f"({new})"
            mutated = text.encode()[:first] + inner.encode() + text.encode()[last:]
            yield Mutant(file, node.lineno, f"{old} -> {new}", mutated.decode())


def _places(tree: ast.Module) -> Iterator[ast.expr | ast.stmt]:
    """Yield expressions and statements of functions, without annotations, f-strings and `raise`."""
    waiting: list[ast.AST] = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    seen: set[ast.AST] = set()
    while waiting:
        node = waiting.pop(0)
        if node in seen or isinstance(node, ast.Raise | ast.arguments | ast.JoinedStr):
            continue
        seen.add(node)
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.FunctionDef):
            yield node
        skipped = {"returns", "annotation", "decorator_list"}
        waiting += [
            child
            for name, value in ast.iter_fields(node)
            if name not in skipped
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST)
        ]


def _swap_operators(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        node.ops[0] = SWAPPED[type(node.ops[0])]()
        return node
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED:
        node.op = SWAPPED[type(node.op)]()
        return node
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _change_constant(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bool | int | float):
        return None
    node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    return node


def _leave_call_out(node: ast.AST) -> ast.AST | None:
    return ast.Pass() if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


def choose_mutants(sources: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw mutants of the Python files in folders, each place with the same probability."""
    files = sorted(path for source in sources for path in source.rglob("*.py"))
    files += [source for source in sources if source.is_file()]
    mutants = [mutant for file in files for mutant in make_mutants(file, file.read_text())]
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


def run_tests(folder: Path, tests: Sequence[str], seconds: float) -> bool:
    """Check whether the tests pass in a copy of the tree, within a time in seconds."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        import pytest

        with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            code = pytest.main(["-x", "-q", "-n0", "-p", "no:cacheprovider", *tests])
        os._exit(int(code))
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return status == 0


def count_kills(folder: Path, tests: Sequence[str], mutants: Sequence[Mutant]) -> list[bool]:
    """Find which mutants the tests of a copy of the tree kill.

    Raises:
        SystemExit: the tests fail without a fault.
    """
    begun = time.monotonic()
    if not run_tests(folder, tests, 3600.0):
        sys.exit(f"{' '.join(tests)} fail without a mutant")
    seconds = max(LEAST, TIMES_LONGER * (time.monotonic() - begun))
    killed = []
    for mutant in mutants:
        path = folder / mutant.file
        original = path.read_text()
        path.write_text(mutant.text)
        killed.append(not run_tests(folder, tests, seconds))
        path.write_text(original)
    return killed


def copy_tree(folder: Path, commit: str | None) -> Path:
    """Copy this checkout's code and tests; the tests of `commit`, if one is given."""
    for name in TREE:
        subprocess.run(["cp", "-r", name, str(folder)], check=True)
    if commit is not None:
        subprocess.run(["rm", "-r", str(folder / "tests")], check=True)
        archive = subprocess.run(["git", "archive", commit, "tests"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def main() -> None:
    """Print how many mutants the tests kill, and the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before")
    options = parser.parse_args()
    mutants = choose_mutants(options.sources, options.count, options.seed)
    os.environ["OMP_NUM_THREADS"] = "1"
    for library in IMPORTED_ONCE:
        import_module(library)
    for commit in [options.before, None] if options.before else [None]:
        with TemporaryDirectory(prefix="mutants-") as name:
            killed = count_kills(copy_tree(Path(name), commit), options.tests, mutants)
        print(f"{commit or 'now'}: {sum(killed)} of {len(mutants)} mutants killed", flush=True)
        for mutant, is_killed in zip(mutants, killed, strict=True):
            if not is_killed:
                print(f"  survives: {mutant}")


if __name__ == "__main__":
    main()
