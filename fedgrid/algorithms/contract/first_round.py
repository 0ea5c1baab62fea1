"""Settings that count rounds, and so cannot act in a run that is shorter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class FirstRound:
    """Marks a setting: with the value n it acts in round n + `later` at the earliest.

    As in `round: Annotated[PositiveInt, FirstRound()] = 21`. None stands for never.
    """

    later: int = 0


def first_rounds(settings: type[BaseModel], values: Mapping[str, Any]) -> dict[str, int]:
    """Return marked setting -> the first round, from 1, in which it acts with its value.

    Args:
        settings: an algorithm's.
        values: theirs; one that is left out, or None, is at a default that never acts.
    """
    marks = {
        name: mark
        for name, field in settings.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, FirstRound) and values.get(name) is not None
    }
    return {name: values[name] + mark.later for name, mark in marks.items()}
