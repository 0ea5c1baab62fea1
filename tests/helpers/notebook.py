"""Runs a notebook's cells as Jupyter would, without Jupyter."""

import ast
import json
from pathlib import Path
from typing import Any


def run_cells(path: Path) -> list[Any]:
    """Run the code cells of a notebook, in order and with common names; return what each shows.

    That is the value of its last line, if this is an expression, else None.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, path.name, "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
        shown.append(value)
    return shown
