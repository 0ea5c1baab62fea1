"""The digest of the code on which a run's numbers depend: derived from imports, never listed.

It covers the modules that the functions which make numbers import, directly or through others, inside
functions too, and data files in the same folders. What is imported from `fedgrid` itself, as rivals do,
counts as imported from the module that defines it. Comments, docstrings and blank lines do not count.
"""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path

ROOTS = (
    "fedgrid.engine.federation.before_training.encoder_training",
    "fedgrid.engine.federation.before_training.setup",
    "fedgrid.engine.federation.clients.worker",
    "fedgrid.engine.federation.round.next_round",
)
"""Modules of the functions that make the numbers of any run; those of its algorithm are added to these."""
PACKAGE = __name__.partition(".")[0]
EXPORTS = "_NAMES"
"""Name of the table, in the package's own file, of modules and the names that they export."""


class SourceModule:
    """The source of a module, read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._source = path.read_text(encoding="utf-8")
        self._statements = list(_iterate_statements(ast.parse(self._source)))

    @property
    def imported_names(self) -> Iterator[str]:
        """The full names that it imports, `a.b.c` of `from a.b import c`; without those for types only."""
        for node in self._statements:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    @cached_property
    def code(self) -> str:
        """The source without comments, docstrings (those of attributes, too) and blank lines."""
        lines: list[str] = self._source.split("\n")
        for node in self._statements:
            if _is_text(node):
                end = node.end_lineno or node.lineno
                lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
        # Tokens are slow; most modules have no # outside of their docstrings.
        if "#" in "\n".join(lines):
            for token in tokenize.generate_tokens(io.StringIO(self._source).readline):
                if token.type == tokenize.COMMENT:
                    row, column = token.start
                    lines[row - 1] = lines[row - 1][:column]
        return "\n".join(line.rstrip() for line in lines if line.strip())


class Sources:
    """The modules of the package in a folder, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._modules: dict[str, SourceModule | None] = {}

    @cached_property
    def exports(self) -> dict[str, str]:
        """Full name of what `fedgrid` exports -> the full name of the module that defines it."""
        package = ast.parse((self.folder / "__init__.py").read_text(encoding="utf-8"))
        [table] = [
            node.value
            for node in package.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == EXPORTS
        ]
        return {
            f"{PACKAGE}.{name}": f"{PACKAGE}.{module}"
            for module, names in ast.literal_eval(table).items()
            for name in names.split()
        }

    def digest_modules(self, names: Iterable[str]) -> str:
        """Compute the digest of modules and of all that they import; 64 hexadecimal digits.

        `names` are full, as `fedgrid.algorithms.averaging.fedopt`; those of other packages are left out.
        """
        modules = filter(None, map(self._find_module, self.find_closure(names)))
        contents = {module.path: module.code for module in modules}
        for folder in {path.parent for path in contents}:
            data = (path for path in folder.iterdir() if path.is_file() and path.suffix != ".py")
            contents |= {path: path.read_text(encoding="utf-8") for path in data}
        digest = sha256()
        # By path, since a folder lists its files in any order.
        for path in sorted(contents):
            digest.update(f"{path.relative_to(self.folder).as_posix()}\n{contents[path]}\n".encode())
        return digest.hexdigest()

    def find_closure(self, names: Iterable[str]) -> set[str]:
        """Find the modules of the package among `names`, and all that they import, also through others."""
        reached: set[str] = set()
        new = {name for name in names if self._find_module(name) is not None}
        while new:
            reached |= new
            new = {other for name in new for other in self._iterate_imports(name)} - reached
        return reached

    def _iterate_imports(self, name: str) -> Iterator[str]:
        """Yield the modules of the package that a module imports, or imports something from."""
        module = self._find_module(name)
        for imported in module.imported_names if module is not None else ():
            # `from a.b import c` imports the module a.b.c, or something that a.b defines or exports.
            owner = imported if self._find_module(imported) is not None else imported.rpartition(".")[0]
            owner = self.exports.get(imported, owner)
            if self._find_module(owner) is not None:
                yield owner

    def _find_module(self, name: str) -> SourceModule | None:
        """Find a module of the package by its full name; None for packages, and for other names."""
        if name not in self._modules:
            package, _, below = name.partition(".")
            path = self.folder.joinpath(*below.split(".")).with_suffix(".py")
            ours = package == PACKAGE and below and path.is_file()
            self._modules[name] = SourceModule(path) if ours else None
        return self._modules[name]


SOURCES = Sources(Path(__file__).parents[3])
"""The modules of the package that runs."""


def _iterate_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements below a node, inner ones too, except those below `if TYPE_CHECKING:`."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        if field == "body" and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from _iterate_statements(inner)


def _is_text(node: ast.stmt) -> bool:
    """Check whether a statement is a text alone, as a docstring is."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
