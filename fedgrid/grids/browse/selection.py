"""Which runs of a grid are shown, and in which order: `--where ari>0.9,algorithm=fedavg` and `--sort ari`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.browse.columns import Row
from fedgrid.grids.presets.axis_keys import text_of

CONDITION = re.compile(r"\s*([\w.-]+?)\s*(!=|>=|<=|=|>|<)\s*(.*?)\s*")
ORDERS: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}


@dataclass(frozen=True)
class Condition:
    """A column is one of some values (`=`), none of them (`!=`), or a number above or below another."""

    column: str
    operator: str
    values: tuple[str, ...]

    def holds(self, row: Row) -> bool:
        """Return whether a run meets it; a run without a number is neither above nor below one."""
        found = row.value(self.column)
        if self.operator in ORDERS:
            is_number = isinstance(found, int | float)
            return is_number and ORDERS[self.operator](float(found), float(self.values[0]))
        return (text_of(found) in self.values) == (self.operator == "=")


def read_conditions(texts: Sequence[str]) -> list[Condition]:
    """Return the conditions of `--where`: `dataset=mnist,fmnist,ari>0.9`. All must hold.

    A part without an operator is one more value of the condition before it.

    Raises:
        ConfigError: for any other text.
    """
    found: list[Condition] = []
    for text in texts:
        for index, part in enumerate(text.split(",")):
            match = CONDITION.fullmatch(part)
            if match and match[3]:
                found = _added(found, match[1], match[2], match[3])
            elif index and part.strip() and not match:
                last = found[-1]
                found = _added(found, last.column, last.operator, part.strip())
            else:
                raise ConfigError(
                    f"--where {text}: expected COLUMN=VALUE, as in algorithm=ocfl-hdbscan or 'ari>0.9'; "
                    "operators: = != > >= < <="
                )
    return found


def _added(found: list[Condition], column: str, operator: str, value: str) -> list[Condition]:
    """Return the conditions with another one; values of one column and operator are alternatives."""
    if operator in ORDERS:
        try:
            float(value)
        except ValueError as error:
            raise ConfigError(f"--where {column}{operator}{value}: '{value}' is not a number") from error
        return [*found, Condition(column, operator, (value,))]
    value = text_of(value)
    for place, other in enumerate(found):
        if (other.column, other.operator) == (column, operator):
            found[place] = Condition(column, operator, (*other.values, value))
            return found
    return [*found, Condition(column, operator, (value,))]


def in_order(rows: Sequence[Row], column: str, reverse: bool) -> list[Row]:
    """Return the runs by a column: the largest number first, text from A to Z, runs without a value last."""
    known = [row for row in rows if row.value(column) is not None]
    unknown = [row for row in rows if row.value(column) is None]
    numbers = all(isinstance(row.value(column), int | float) for row in known)
    key: Callable[[Row], Any] = (
        (lambda row: -row.value(column)) if numbers else lambda row: text_of(row.value(column))
    )
    return [*sorted(known, key=key, reverse=reverse), *unknown]
