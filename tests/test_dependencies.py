"""The dependencies in pyproject.toml: all that the code imports, nothing else, each with a pinned version."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions as find_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = "fedgrid"


@cache
def packages_distributions() -> Mapping[str, list[str]]:
    """Return top-level module -> distributions that provide it; finding them takes seconds."""
    return find_distributions()


def normalised(name: str) -> str:
    """Return the name of a distribution as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """Return the distributions that pyproject.toml declares for users, without extras and versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["hf"]]
    return {normalised(re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0]) for line in lines}


def modules_in(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports, `import_module("name")` included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(module))]):
                yield module


@cache
def imported() -> dict[str, str]:
    """Return top-level third-party module -> a file that imports it."""
    files: dict[str, str] = {}
    for path in (ROOT / OURS).rglob("*.py"):
        for module in modules_in(ast.parse(path.read_text())):
            name = module.partition(".")[0]
            if name not in sys.stdlib_module_names and name != OURS:
                files.setdefault(name, str(path.relative_to(ROOT)))
    return files


def test_imports_are_found_in_all_their_forms() -> None:
    code = "import a.b, c\nfrom d.e import f\nfrom . import g\ndef h():\n    import i\nimport_module('j')"
    assert sorted(modules_in(ast.parse(code))) == ["a.b", "c", "d.e", "i", "j"]


def test_every_imported_package_is_declared() -> None:
    distributions = packages_distributions()
    undeclared = {
        module: file
        for module, file in imported().items()
        if declared().isdisjoint(map(normalised, distributions.get(module, [module])))
    }
    assert undeclared == {}, "add these to the dependencies in pyproject.toml, or do without"


def test_every_declared_package_is_imported() -> None:
    distributions = packages_distributions()
    used = {normalised(name) for module in imported() for name in distributions.get(module, [module])}
    assert declared() - used == set(), "imported nowhere: remove these from pyproject.toml"


def test_declared_packages_have_a_pinned_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normalised(line.split("==")[0]) for line in lines if "==" in line}
    assert declared() - pinned == set(), "not in constraints.txt: run `make constraints`"
