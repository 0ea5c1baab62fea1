"""Scores are declared as fields of a `Group`: name, meaning, how the score is computed, whether MLflow shows
it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

Value = float | int | bool | None


@dataclass(frozen=True)
class Score:
    """The declaration of one score."""

    name: str
    meaning: str
    """One sentence for the documentation and for MLflow."""
    of: Callable[..., Any] | None
    """How the score is computed; the group says from what. None if the code that makes the group computes
    it."""
    in_mlflow: bool
    section: str
    """Of MLflow's metrics; empty if MLflow does not show the group."""


@dataclass(frozen=True)
class Group:
    """Scores that belong together."""

    section: ClassVar[str] = ""
    """The section of MLflow's metrics that these scores are in."""

    def as_dict(self) -> dict[str, Value]:
        """Return name -> value. Nested groups and mappings are flattened; NaN and infinity become None."""
        flat: dict[str, Value] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Group):
                flat |= value.as_dict()
            elif isinstance(value, Mapping):
                flat |= {name: _finite(number) for name, number in value.items()}
            else:
                flat[each.name] = _finite(value)
        return flat


def score(meaning: str, of: Callable[..., Any] | None = None, *, in_mlflow: bool = False) -> Any:
    """Return a dataclass field that declares a score; the arguments are explained at `Score`."""
    return field(metadata={"meaning": meaning, "of": of, "in_mlflow": in_mlflow})


def declared(group: type[Group]) -> Iterator[Score]:
    """Yield the scores that a group and the groups within it declare."""
    for each in fields(group):
        if isinstance(each.type, type) and issubclass(each.type, Group):
            yield from declared(each.type)
        elif "meaning" in each.metadata:
            yield _score(each, group.section)


def computed(group: type[Group], *given: Any) -> dict[str, Any]:
    """Return name -> value of the scores that a group itself declares, each computed from `given`."""
    scores = (_score(each, group.section) for each in fields(group))
    return {score.name: score.of(*given) for score in scores if score.of is not None}


def _score(each: "Field[Any]", section: str) -> Score:
    return Score(each.name, **each.metadata, section=section)


def _finite(value: Value) -> Value:
    return None if isinstance(value, float) and not np.isfinite(value) else value
