"""Each export of `fedgrid` has an example in its docstring, and the example does what it shows."""

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest

import fedgrid

ROOT = Path(__file__).parents[1]


def docstring_of(name: str) -> tuple[str, str]:
    """Return the file of an export and its docstring; of a constant or a type, the string after it."""
    if name == "figures":
        return str(import_module("fedgrid.tracking.figures").__file__), fedgrid.figures.__doc__ or ""
    rooms = {**fedgrid._NAMES, "engine.federation.errors": "FedgridError"}
    module = next(f"fedgrid.{room}" for room, names in rooms.items() if name in names.split())
    path = Path(str(import_module(module).__file__))
    body = ast.parse(path.read_text()).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return str(path), ast.get_docstring(node) or ""
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            return str(path), str(after.value.value) if is_text else ""
    raise AssertionError(f"{path} does not define {name}")


@pytest.mark.parametrize("name", fedgrid.__all__)
def test_example_of_an_export_does_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    path, text = docstring_of(name)
    example = doctest.DocTestParser().get_doctest(text, {}, f"fedgrid.{name}", path, 0)
    assert example.examples, f"{path}: the docstring of {name} has no example (>>>)"
    report: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags).run(example, out=report.append)
    assert not report, "".join(report)
