"""Shared parts of the commands: exit codes, the console, groups of options, and the order of arguments."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.display.plain_console import PlainConsole
from fedgrid.grids.display.steps import StepDisplay

if TYPE_CHECKING:
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.execution.watch import LaunchResult

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
EMPTY_ALLOWED = ("note",)
"""Parameters that accept an empty text, which removes something."""
PATH_BEGINNING = re.compile(r"~\w*/|\$\{?\w+\}?/")
OVERRIDES = "overrides"
"""Name of the parameter of a command that takes `KEY=VALUE`s."""
OVERRIDE_PATTERN = re.compile(r"[A-Za-z_][\w.]*\+?=")
"""Beginning of an override. A path with `=` in it begins differently, as `./a=b.yaml` does."""
PLAIN_WIDTH = 132
"""Columns to print if the output is not a terminal."""


def create_console() -> PlainConsole:
    """Create a console for standard output."""
    shown = PlainConsole()
    # Into a pipe or file rich would print 80 columns, and cut tables into parts.
    return shown if shown.is_terminal else PlainConsole(width=PLAIN_WIDTH)


@contextmanager
def show_starting(*, quiet: bool) -> Iterator[None]:
    """Show on a terminal that a command starts, while it imports what it needs."""
    with StepDisplay(create_console(), quiet=quiet) as steps:
        steps.begin_step("Starting")
        yield


def use_plugins(files: Sequence[Path] | None, *, trust: bool = False) -> None:
    """Register the plugins that a command names, and those of installed packages.

    With `trust`, plugins that a grid's file names later are loaded too if others may have written them.
    """
    from fedgrid.engine.runtime.plugins import active

    active.use_plugins(files or [], trust=trust)


def open_storage(place: str) -> "Storage":
    """Open the storage in a folder, or at a URI."""
    from fedgrid.engine.runtime.storage.storage import Storage

    return Storage.from_text(place)


def find_data_folder(data_dir: Path | None) -> Path:
    """Find the absolute path of the image folder: `data_dir`, or the user's cache."""
    from fedgrid.engine.runtime.data.datasets import check_image_folder, default_data_dir

    return check_image_folder(data_dir) if data_dir is not None else default_data_dir().absolute()


class FedgridCommand(TyperCommand):
    """A command that takes overrides among its arguments and refuses an option of one value given twice.

    Typer would silently use the last of two values.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments and return those that are left; called by Typer."""
        names = [arg.partition("=")[0] for arg in args]
        for option in self.params:
            its = [name for name in names if name in option.opts and name.startswith("-")]
            # A flag that is given twice means the same as once; options marked as `multiple` collect their
            # values.
            if len(its) > 1 and not option.multiple and not getattr(option, "is_flag", False):
                message = f"it is given {len(its)} times; give it once, with commas between several values"
                raise ConfigError(f"{its[-1]}: {message}")
        rest = super().parse_args(ctx, args)
        place_arguments(ctx, self.params)
        return rest


def set_parsers(command: Callable[..., None]) -> None:
    """Make Typer parse every path and text of a command by `parse_path` and `parse_text`."""
    for parameter in signature(command, eval_str=True).parameters.values():
        kind, *options = get_args(parameter.annotation) or (None,)
        kinds = {kind, *(inner for part in get_args(kind) for inner in (part, *get_args(part)))}
        for option in options:
            # An option with a parser of its own, such as a size, keeps it.
            if option.parser is None and parameter.name not in EMPTY_ALLOWED and kinds & {Path, str}:
                option.parser = parse_path if Path in kinds else parse_text


def parse_path(text: str) -> Path:
    """Expand a path's `~` and variables; it may be relative."""
    from fedgrid.engine.runtime.storage.user_files import expand_path

    return expand_path(text, "the path")


def parse_text(text: str) -> str:
    """Check that a text is not empty, and expand one that begins as a path in the home folder."""
    if not text.strip():
        raise typer.BadParameter("it is empty; give a value, or leave it out")
    return str(parse_path(text)) if PATH_BEGINNING.match(text) else text


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Expand the parameters of a command whose type is a dataclass into options, one for each field.

    The fields are options as in `options.py`, and have their parameter's place in the help text.
    """
    hints = get_type_hints(command)
    groups: dict[str, type[Any]] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }

    def list_parameters() -> Iterator[Parameter]:
        for name, parameter in signature(command, eval_str=True).parameters.items():
            if name in groups:
                yield from signature(groups[name]).parameters.values()
            else:
                yield parameter

    @wraps(command)
    def call_expanded(**values: Any) -> None:
        made = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **made)

    # Typer reads the options from the signature.
    call_expanded.__signature__ = signature(command).replace(  # type: ignore[attr-defined]
        # Keyword-only, because the order of the options is free of Python's rule that defaults come last.
        parameters=[parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in list_parameters()]
    )
    return call_expanded


def exit_with(result: "LaunchResult") -> NoReturn:
    """Exit with the code that tells how a launch ended."""
    if result.stopped:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if result.failures else 0)


def place_arguments(context: Any, parameters: Sequence[Any]) -> None:
    """Assign a command's arguments to its parameters: overrides may stand anywhere among them.

    Typer assigns them in their order, so an override that comes first would be taken for the grid.

    Args:
        context: Typer's context, whose `params` are changed.
        parameters: the command's parameters.

    Raises:
        TyperException: there are more names than the command takes, or one is missing.
        ConfigError: a key is given twice.
    """
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    # The shell's completion parses half a command line.
    if context.resilient_parsing or OVERRIDES not in (one.name for one in arguments):
        return
    takes = [one for one in arguments if one.name != OVERRIDES]
    first = [context.params[one.name] for one in takes]
    words = [word for word in (*first, *(context.params[OVERRIDES] or ())) if word is not None]
    names = [word for word in words if not OVERRIDE_PATTERN.match(word)]
    if len(names) > len(takes):
        context.fail(f"Got unexpected extra argument ({names[len(takes)]})")
    for one, name in zip(takes, [*names, *[None] * len(takes)], strict=False):
        if one.required and name is None:
            context.fail(f"Missing argument '{one.name.upper()}'")
        context.params[one.name] = name
    overrides = [word for word in words if OVERRIDE_PATTERN.match(word)]
    counts = Counter(word.partition("=")[0] for word in overrides)
    for key, count in counts.items():
        if count > 1:
            raise ConfigError(
                f"{key}: it is given {count} times; give it once, with commas between several values"
            )
    context.params[OVERRIDES] = overrides
