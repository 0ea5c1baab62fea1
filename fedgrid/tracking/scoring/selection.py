"""Conditions on runs, as in `--where` and `Study.where`: their syntax and their match.

`dataset=mnist,fmnist,ari>0.9`: a column is one of some values (`=`), none of them (`!=`), or a number above
or below another. All conditions must hold.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

CONDITION = re.compile(r"\s*([\w.-]+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*")
ORDERS: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
CHOICE_KEYS = ("name", "kind")
"""Keys of a mapping with the name of what is chosen, whose settings are its other keys."""


@dataclass(frozen=True)
class Condition:
    """A condition on the values of one column."""

    column: str
    operator: str
    values: tuple[Any, ...]

    def matches_values(self, present: Iterable[Any]) -> bool:
        """Check whether a run with these values of the column, synonyms of one another, meets the condition.

        A choice with settings is selected by its name too: `krum` is also `krum (keep 0.8)`. A run without a
        number is neither above nor below one.
        """
        if self.operator in ORDERS:
            numbers = [number for value in present if (number := parse_number(value)) is not None]
            return any(ORDERS[self.operator](number, float(self.values[0])) for number in numbers)
        present = list(present)
        chosen = (value for value in present if isinstance(value, Mapping))
        names = {str(value[key]) for value in chosen if (key := find_choice_key(value)) is not None}
        texts = names | {format_value(value) for value in present}
        # Compared as text, since values come from JSON, a command line or Python: 1, 1.0 and "1" are the
        # same.
        return any(format_value(value) in texts for value in self.values) == (self.operator == "=")


def read_conditions(text: str) -> list[Condition]:
    """Parse the conditions of a text. A part without an operator is one more value of the one before it.

    Raises:
        ValueError: the text is no such conditions; without the text itself.
    """
    conditions: dict[tuple[str, str, str], Condition] = {}
    last: tuple[str, str] | None = None
    for part in _split_at_commas(text):
        match = CONDITION.fullmatch(part)
        if match and match[3]:
            last, value = (match[1], match[2]), match[3]
        elif last and part.strip() and not match:
            value = part.strip()
        else:
            raise ValueError(
                "expected COLUMN=VALUE, as in algorithm=ocfl-hdbscan or 'ari>0.9', with commas between; "
                "operators: = != > >= < <="
            )
        if last[1] in ORDERS and parse_number(value) is None:
            raise ValueError(f"'{value}' is not a number")
        # Values of one column and operator are alternatives, but for limits: all of these must hold.
        key = (*last, value if last[1] in ORDERS else "")
        before = conditions[key].values if key in conditions else ()
        conditions[key] = Condition(*last, (*before, value))
    return list(conditions.values())


def _split_at_commas(text: str) -> list[str]:
    """Split a text at commas outside of parentheses: `krum (keep 0.5, share 0.2)` is one value."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def parse_number(value: Any) -> float | None:
    """Parse a number, or the number of a text; None if there is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def format_value(value: Any) -> str:
    """Format a value, the same for the same number: 1.0 and 1 are `1`, '1e-3' is `0.001`.

    Of a choice with settings: its name and those of its settings that are not None, as `fedprox (mu 0.5)`. Of
    a list of sections or mappings: `clip 1, noise 0.5`.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        # A float has 15 to 17 digits, so a long whole number stays as it is.
        number = None if isinstance(value, int) else parse_number(value)
        return str(value) if number is None else f"{number:.12g}"
    value = _dump_section(value)
    if isinstance(value, Mapping) and (chosen := find_choice_key(value)) is not None:
        settings = ", ".join(
            f"{key} {format_value(value[key])}"
            for key in sorted(value)
            if key != chosen and value[key] is not None
        )
        return f"{value[chosen]} ({settings})" if settings else str(value[chosen])
    if isinstance(value, list | tuple):
        parts = [_dump_section(part) for part in value]
        if any(isinstance(part, Mapping) for part in parts):
            return ", ".join(
                f"{key} {format_value(inner)}" for part in parts for key, inner in dict(part).items()
            )
    return json.dumps(value, sort_keys=True, default=str)


def find_choice_key(value: Mapping[str, Any]) -> str | None:
    """Find the key with the name of a choice with settings, None if the mapping is no choice."""
    return next((key for key in CHOICE_KEYS if isinstance(value.get(key), str)), None)


def _dump_section(value: Any) -> Any:
    """Convert a section, which is a model of pydantic, to a mapping; other values stay."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def sort_positions(values: Sequence[Any], reverse: bool) -> list[int]:
    """Sort the positions of values: largest number first, text from A to Z, None last."""
    numbered = [place for place, value in enumerate(values) if value is not None]
    numbers = all(isinstance(values[place], int | float) for place in numbered)
    key: Callable[[int], Any] = (
        (lambda place: -values[place]) if numbers else lambda place: format_value(values[place])
    )
    unknown = [place for place, value in enumerate(values) if value is None]
    return [*sorted(numbered, key=key, reverse=reverse), *unknown]
