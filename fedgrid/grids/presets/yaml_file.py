"""Read YAML files in which every key is unique, with the line of each key and list item."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fedgrid.engine.federation.errors import ConfigError

MOST_PARTS = 100_000
"""Most keys and values of a file, aliases written out: a few aliases of aliases can stand for billions."""
MOST_BYTES = 1 << 20
"""Most bytes of a file."""
MOST_NESTED = 100
"""Most brackets within brackets: the time that PyYAML takes grows with the square of their number."""
PathStep = str | int
"""A step of a path: a key, or the position of a list item."""


def read_yaml(path: Path) -> "YamlFile":
    """Read the YAML mapping in a file.

    Raises:
        ConfigError: if it is not YAML or not a mapping, or is too large.
        OSError: if it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is not a file; expected YAML there")
    with path.open("rb") as file:
        # Bounded, because the name may be of a data set of gigabytes.
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path} is larger than {MOST_BYTES >> 20} MiB; is it YAML?")
    return YamlFile(str(path), content)


class YamlFile:
    """A YAML mapping, with the lines of its keys and items."""

    def __init__(self, name: str, content: bytes, *, has_lines: bool = True) -> None:
        """Parse `content`.

        Args:
            name: the name of the file in errors.
            content: the bytes of the file.
            has_lines: whether errors name lines; False names only keys, where lines mean nothing to the user.

        Raises:
            ConfigError: if it is not YAML, or not a mapping.
        """
        values, self._root = _parse_yaml(content, name)
        if not isinstance(values, dict):
            what = {type(None): "the file is empty", list: "not a list"}.get(type(values), "not one value")
            what += ", and a space after each colon" if isinstance(values, str) and ":" in values else ""
            raise ConfigError(f"{name}: expected keys such as dataset: and algorithm:, {what}")
        self.name = name
        self.has_lines = has_lines
        self.text = content.decode(errors="replace")
        self.values: dict[str, Any] = {str(key): value for key, value in values.items()}

    def find_line(self, path: tuple[PathStep, ...]) -> int:
        """Find the line, from 1, at `path`, or at the longest part of it that exists."""
        node = self._root
        line = 0
        for step in path:
            inner = _find_inner(node, step)
            if inner is None:
                break
            mark, node = inner
            line = mark.line
        return line + 1


@dataclass(frozen=True)
class Place:
    """A place in a file; as text `my.yaml, line 12`, or `training.rounds` without lines."""

    file: YamlFile
    path: tuple[PathStep, ...] = ()

    def __str__(self) -> str:
        if not self.file.has_lines:
            return ".".join(map(str, self.path)) or self.file.name
        return f"{self.file.name}, line {self.file.find_line(self.path)}"

    def locate_part(self, *steps: PathStep) -> "Place":
        """Locate a part of what is at this place."""
        return Place(self.file, (*self.path, *steps))


@contextmanager
def prefix_errors(place: Place | str | None) -> Iterator[None]:
    """Put `place` before the message of a `ConfigError` in the block; None changes nothing."""
    try:
        yield
    except ConfigError as error:
        if place is None:
            raise
        raise ConfigError(f"{place}: {error}", error.key) from error


def parse_value(text: str, source: str) -> Any:
    """Parse a piece of YAML; errors begin with `source`.

    Raises:
        ConfigError: if it is not YAML.
    """
    return _parse_yaml(text, source)[0]


def parse_values(text: str, source: str) -> list[Any]:
    """Parse pieces of YAML separated by commas; errors begin with `source`.

    `1, 2` has two values, and `[1, 2]`, `{a: 1, b: 2}` and `"1, 2"` have one each.

    Raises:
        ConfigError: if it is not YAML, or there is nothing on one side of a comma.
    """
    if not set(text) & set("[]{}'\""):
        return [
            parse_value(part, source) for part in (split_at_commas(text, source) if "," in text else [text])
        ]
    try:
        values: list[Any] = parse_value(f"[{text}]", source)
    except ConfigError:
        return [parse_value(text, source)]  # Its error shows the text without the added brackets.
    return values if len(values) > 1 else [parse_value(text, source)]


def split_at_commas(text: str, source: str) -> list[str]:
    """Split `a,b` into names, without the spaces around them.

    Raises:
        ConfigError: if there is nothing on one side of a comma.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ConfigError(f"{source}: nothing stands on one side of a comma; several are A,B without spaces")
    return names


def format_yaml(value: Any) -> str:
    """Format a value as a piece of YAML on one line, such as `[1, 5]` or `{local_epochs: 5}`."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=MOST_BYTES)
    return text.removesuffix("...\n").strip()


def suggest_axis(key: str, values: Any) -> str:
    """Suggest, as the end of a message, how a file gives several values to a key."""
    return f"for a run with each of them write `axes: {{{key}: {format_yaml(values)}}}` into the file"


def _parse_yaml(content: str | bytes, source: str) -> tuple[Any, yaml.Node | None]:
    """Parse YAML into values and the node that has their lines."""
    try:
        loader = _Loader(content)
        node = loader.get_single_node()
        if node is None:
            return None, None
        # Before values are constructed: that is where aliases multiply and fill the memory.
        if _count_parts(node, {}) > MOST_PARTS:
            raise ConfigError(f"{source} has more than {MOST_PARTS} keys and values, aliases written out")
        return loader.construct_document(node), node
    except _MisleadingNumber as error:
        # A value of the command line has no lines.
        line = f"line {error.line}: " if isinstance(content, bytes) else ""
        raise ConfigError(f"{source}: {line}{error}") from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{source} is not YAML: {line}{problem}{_suggest_fix(problem)}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: lists and keys are nested too deeply, or contain themselves") from error
    except ConfigError:
        raise
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{source} is not YAML: save it as plain text in UTF-8 ({error.reason})") from error
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: an impossible date or number, which PyYAML does not catch.
        raise ConfigError(f"{source} is not YAML: {' '.join(str(error).split())}") from error


def _suggest_fix(problem: str) -> str:
    """Suggest how the two most frequent mistakes are mended."""
    if "'\\t'" in problem:
        return "; indent with spaces"
    return "; expected KEY: VALUE, with a space after the colon" if "expected ':'" in problem else ""


def _count_parts(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Count the parts of a node as if each alias were written out; `sizes` caches them by node id."""
    if id(node) not in sizes:
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = node.value
        elif isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        sizes[id(node)] = 1 + sum(_count_parts(part, sizes) for part in parts)
    return sizes[id(node)]


def _find_inner(node: yaml.Node | None, step: PathStep) -> tuple[yaml.Mark, yaml.Node] | None:
    """Find the place and the node one step below `node`; None if there is none."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    if isinstance(node, yaml.MappingNode):
        # From the end: keys merged in by `<<` come first, and the mapping's own keys win.
        for key, value in reversed(node.value):
            if key.value == str(step):
                return key.start_mark, value
    return None


class _MisleadingNumber(ValueError):
    """A number that YAML 1.1 does not read as people do: `1:10` is 70, `010` is 8."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses misleading numbers and duplicate keys; PyYAML silently takes the last of them.

    ruamel.yaml does refuse them, but reads YAML 1.2 (`010` is 10 there and 8 here), keeps no lines of keys
    merged by `<<`, and takes four to seven times as long.
    """

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        """Count an opening bracket; refuse one that is within too many others. Called by PyYAML."""
        if self.flow_level >= MOST_NESTED:
            raise RecursionError
        super().fetch_flow_collection_start(token)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct the mapping of `node`; refuse one in which a key occurs twice. Called by PyYAML."""
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            if key.value in seen:
                problem = f"duplicate key '{key.value}'"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """Construct the number of `node`; refuse one whose base is not ten. Called by PyYAML."""
        is_float = node.tag.endswith(":float")
        value = self.construct_yaml_float(node) if is_float else self.construct_yaml_int(node)
        text = node.value.replace("_", "")
        if ":" in text:
            seeds = f", or {text.replace(':', '..')} for a range of seeds" if text.count(":") == 1 else ""
            problem = f"{node.value} is {value} in YAML (base 60): write {value}{seeds}, or quote it"
        elif text.lstrip("+-").isdecimal() and int(text) != value:
            problem = f"{node.value} is {value} in YAML (base 8): write {int(text)} or {value}, or quote it"
        else:
            return value
        raise _MisleadingNumber(problem, node.start_mark.line + 1)


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)
