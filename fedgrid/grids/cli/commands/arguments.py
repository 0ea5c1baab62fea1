"""The arguments of a command line: names first or last, and overrides as Hydra's users write them."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedgrid.engine.federation.errors import ConfigError

OVERRIDES = "overrides"
"""The parameter of a command that takes `KEY=VALUE`s."""
OVERRIDE = re.compile(r"[A-Za-z_][\w.]*\+?=")
"""How an override begins. A path with `=` in it begins otherwise, as `./a=b.yaml` does."""


def place_arguments(context: Any, parameters: Sequence[Any]) -> None:
    """Give a command its arguments: overrides may stand anywhere among them.

    Typer fills them in their order, so an override that comes first would be taken for the grid.

    Args:
        context: of Typer; its `params` are changed.
        parameters: of the command.

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
    names = [word for word in words if not OVERRIDE.match(word)]
    if len(names) > len(takes):
        context.fail(f"Got unexpected extra argument ({names[len(takes)]})")
    for one, name in zip(takes, [*names, *[None] * len(takes)], strict=False):
        if one.required and name is None:
            context.fail(f"Missing argument '{one.name.upper()}'")
        context.params[one.name] = name
    overrides = [word for word in words if OVERRIDE.match(word)]
    counts = Counter(word.partition("=")[0] for word in overrides)
    for key, count in counts.items():
        if count > 1:
            raise ConfigError(
                f"{key}: it is given {count} times; give it once, with commas between several values"
            )
    context.params[OVERRIDES] = overrides
