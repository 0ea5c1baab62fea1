"""The layout of the code (docs/house.md): imports run one way, and the core knows no shelf."""

import ast
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import fedgrid

CHECKOUT = Path(__file__).parents[1]
PACKAGES = ("algorithms", "engine", "grids", "rivals", "tracking")
HOUSE = CHECKOUT / "fedgrid"
"""Beside the packages it has modules that all may import, such as `redaction`."""

FEDERATION = "engine.federation"
"""What numbers depend on. It knows no Ray, no Parquet and no storage."""
WITHOUT_RAY = ("algorithms", FEDERATION, "grids.explain.compute")
"""Rooms that work where Ray is not installed."""
RUNS_AND_KEEPS = ("ray", "mlflow", "pyarrow", "pandas", "fsspec", "safetensors", "matplotlib")
"""What runs, keeps and shows numbers."""
MAY_IMPORT = {
    # It registers the rivals, which it does not use.
    "algorithms": {"algorithms", "rivals"},
    "engine": {"engine", "algorithms"},
    "grids": {"grids", "engine", "algorithms", "rivals", "tracking"},
    # Its folder loads the algorithms first; rivals themselves import names of `fedgrid` alone.
    "rivals": {"algorithms", "rivals"},
    "tracking": {"tracking"},
}
BY_NAME = {
    "fedgrid/__init__.py": "what `import fedgrid` offers, on demand",
    "fedgrid/engine/runtime/storage/remote.py": "fsspec",
    "fedgrid/engine/federation/data/readers.py": "torchvision",
    "fedgrid/grids/ray_cluster/background_imports.py": "what is needed later, in a thread",
    "fedgrid/grids/verify/comparison.py": "the reference of an algorithm, by its name",
}
"""Files that import modules by their name, and which: the first has a table of modules of ours."""

SHELVES = {
    "archive": ("grids.archive",),
    "arena": ("grids.arena", "tracking.verdicts"),
    "attack": ("grids.attack",),
    "cite": ("grids.cite",),
    "doctor": ("grids.doctor",),
    "explain": ("grids.explain", "tracking.explained"),
    "papers": ("tracking.papers",),
    "starter": ("grids.starter",),
    "submit": ("grids.submit",),
    "verify": ("grids.verify",),
}
"""What hangs on the core and could go without it: its folders."""
PROGRAM = "__main__"
"""`python -m fedgrid`: no module of the house, but what starts its command line."""
COMMAND_LINE = "grids.cli"
"""Alone of the core it names shelves: a table of commands, and what each does."""

SHORT_NAME = re.compile(rf"^\s*(import|from) ([\w. ]+, )*({'|'.join(PACKAGES)})\b", re.MULTILINE)
"""What the text of a file has that imports a package without `fedgrid.`, or quotes such an import."""

Graph = Mapping[str, frozenset[str]]


@cache
def files() -> Mapping[str, Path]:
    """Return the file of every module, by its name without `fedgrid.`."""
    found = {}
    for package in PACKAGES:
        for path in sorted((HOUSE / package).rglob("*.py")):
            parts = path.relative_to(HOUSE).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    top = {path.stem: path for path in sorted(HOUSE.glob("*.py"))}
    return found | {name: path for name, path in top.items() if name not in ("__init__", PROGRAM)}


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a file, parsed."""
    return ast.parse(path.read_text())


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree and the statements in it, without looking into expressions."""
    left = deque([tree])
    while left:
        yield (node := left.popleft())
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            left.extend(getattr(node, part, ()))


def imported(tree: ast.AST, *, for_types: bool = True) -> Iterator[str]:
    """Yield the full names that a module imports, also inside functions: `a.b.c` of `from a.b import c`.

    Those below `if TYPE_CHECKING:` are left out without `for_types`, those below its `else` are not.
    """
    left_out: set[ast.AST] = set()
    for node in statements(tree):
        if not for_types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left_out |= {inner for statement in node.body for inner in statements(statement)}
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports_of(path: Path, *, for_types: bool = True) -> tuple[str, ...]:
    """Return what a file imports, as `imported`."""
    return tuple(imported(tree_of(path), for_types=for_types))


def module_of(name: str) -> str | None:
    """Return the module of ours that an imported name is, or is defined in."""
    own = name.removeprefix("fedgrid.")
    if own == name:
        return None
    return own if own in files() else own.rpartition(".")[0]


@cache
def modules(*, for_types: bool = True) -> Graph:
    """Return which modules of ours each module imports, for types only too if `for_types`."""
    graph = {}
    for name, path in files().items():
        found = {module_of(each) for each in imports_of(path, for_types=for_types)}
        graph[name] = frozenset(each for each in found if each in files() and each != name)
    return graph


def reached(module: str) -> set[str]:
    """Return the modules that a module imports, directly or through others, and itself."""
    found, new = {module}, {module}
    while new:
        new = {other for name in new for other in modules()[name]} - found
        found |= new
    return found


def outside(module: str) -> set[str]:
    """Return the full names that a module imports from other packages, such as `ray.tune`."""
    names = imports_of(files()[module])
    return {name for name in names if not name.startswith("fedgrid.")}


def room_of(module: str) -> str:
    """Return the folder of a module; a module that lies in no room counts as a room of its own."""
    path = files()[module]
    alone = path.name != "__init__.py" and (HOUSE in (path.parents[1], path.parent))
    in_room = path.with_suffix("") if alone else path.parent
    return ".".join(in_room.relative_to(HOUSE).parts)


def rooms() -> Graph:
    """Return which rooms each room imports from."""
    graph: dict[str, set[str]] = {room_of(name): set() for name in files()}
    for name, others in modules().items():
        graph[room_of(name)] |= {room_of(other) for other in others}
    return {room: frozenset(others - {room}) for room, others in graph.items()}


def cycle(graph: Graph) -> list[str]:
    """Return the nodes of one cycle, none if there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_cycle_is_found():
    assert cycle({"a": frozenset("b"), "b": frozenset("c"), "c": frozenset()}) == []
    assert set(cycle({"a": frozenset("b"), "b": frozenset("ca"), "c": frozenset()})) == {"a", "b"}


def test_imports_inside_functions_count():
    tree = ast.parse("import fedgrid.redaction\ndef f():\n    from fedgrid.algorithms import registry\n")
    assert [module_of(name) for name in imported(tree)] == ["redaction", "algorithms.registry"]


def test_imports_for_types_are_told_apart():
    tree = ast.parse("if TYPE_CHECKING:\n    from a import A\nelse:\n    from b import B\nfrom c import C\n")
    assert sorted(imported(tree, for_types=False)) == ["b.B", "c.C"]


def test_modules_import_one_another_one_way():
    assert cycle(modules()) == []


def test_rooms_import_one_another_one_way():
    assert cycle(rooms()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_those_below_it(package):
    wrong = {
        f"{name} imports {other}"
        for name, others in modules().items()
        for other in others
        if name.partition(".")[0] == package
        if other.partition(".")[0] not in MAY_IMPORT[package] and files()[other].parent != HOUSE
    }
    assert wrong == set()


def test_modules_at_the_top_import_only_one_another():
    top = {name for name, path in files().items() if path.parent == HOUSE}
    assert {name: modules()[name] - top for name in top if modules()[name] - top} == {}


def test_program_is_the_command_line():
    assert imports_of(HOUSE / f"{PROGRAM}.py") == (f"fedgrid.{COMMAND_LINE}.main.main",)


def test_no_import_escapes_the_limits():
    """`import_module` is no import statement, and `from fedgrid import run` hides where `run` is defined."""
    by_name, hidden = set(), set()
    for path in (HOUSE / "__init__.py", *files().values()):
        file, names = str(path.relative_to(CHECKOUT)), {*imports_of(path)}
        if names & {"importlib", "importlib.import_module", "runpy"}:
            by_name.add(file)
        if any(name == "fedgrid" or module_of(name) == "" for name in names):
            hidden.add(file)
    assert by_name == {*BY_NAME}
    as_users = {str(path.relative_to(CHECKOUT)) for path in rival_files()}
    assert hidden == {"fedgrid/grids/starter/plugin.py", *as_users}, "what users write too"


def rival_files() -> list[Path]:
    """Return the files of the rivals, without the references that they are compared with."""
    return [path for path in sorted((HOUSE / "rivals").glob("*.py")) if path.name != "__init__.py"]


def test_rivals_are_written_on_public_names_alone():
    public = {f"fedgrid.{name}" for name in fedgrid.__all__}
    wrong = {
        f"{path.name} imports {name}"
        for path in rival_files()
        for name in imports_of(path)
        if name.partition(".")[0] == "fedgrid" and name not in public
    }
    assert wrong == set()


def test_references_of_rivals_know_nothing_of_fedgrid():
    imports = [name for path in (HOUSE / "rivals" / "references").glob("*.py") for name in imports_of(path)]
    known = [name for name in imports if name.startswith("fedgrid.")]
    assert [name for name in known if not name.startswith("fedgrid.rivals.references.")] == []


def shelf_of(module: str) -> str | None:
    """Return the shelf that a module lies on, None for the core."""
    for shelf, folders in SHELVES.items():
        if any(module == folder or module.startswith(f"{folder}.") for folder in folders):
            return shelf
    return None


def test_core_knows_no_shelf():
    wrong = {
        f"{name} imports {other}"
        for name, others in modules().items()
        for other in others
        if shelf_of(other) and not shelf_of(name) and not name.startswith(COMMAND_LINE)
    }
    assert wrong == set()


def test_what_numbers_depend_on_knows_nothing_of_what_runs_and_keeps_them():
    wrong = {
        f"{name} imports {other}"
        for name in modules()
        if name.startswith(FEDERATION)
        for other in (*modules()[name], *outside(name))
        if other.partition(".")[0] in RUNS_AND_KEEPS
        or (other in files() and not other.startswith((FEDERATION, "algorithms")))
    }
    assert wrong == set()


@pytest.mark.parametrize(
    ("rooms_of", "packages", "through"),
    [
        (WITHOUT_RAY, ("ray", "mlflow"), reached),
        ("engine", ("ray.tune", "mlflow"), lambda name: {name}),
    ],
    ids=["pure rooms, through others too", "the engine"],
)
def test_rooms_do_without_ray_and_mlflow(rooms_of, packages, through):
    wrong = {
        f"{name} imports {other}, which imports {package}"
        for name in modules()
        if name.startswith(rooms_of)
        for other in through(name)
        for package in outside(other)
        if any(package == each or package.startswith(f"{each}.") for each in packages)
    }
    assert wrong == set()


def test_everything_is_imported_by_its_full_name():
    """`import engine` would take a folder of that name beside the user's own files.

    Most files' text shows that there is none: parsing all of them takes three seconds.
    """
    paths = [*files().values(), *CHECKOUT.glob("tests/**/*.py"), *CHECKOUT.glob("benchmarks/**/*.py")]
    wrong = {
        f"{path.relative_to(CHECKOUT)} imports {name}"
        for path in paths
        if SHORT_NAME.search(path.read_text())
        for name in imports_of(path)
        if name.partition(".")[0] in PACKAGES
    }
    assert wrong == set()


def test_every_room_says_what_it_is_for():
    """The generated page docs/reference/rooms.md shows this line."""
    lines = {
        name: (ast.get_docstring(tree_of(path)) or "").partition("\n")[0]
        for name, path in files().items()
        if path.name == "__init__.py"
    }
    assert [name for name, line in lines.items() if not line.endswith(".")] == []
