"""Scores are declared once: name, meaning, how the score is computed, whether MLflow shows it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Score:
    """The declaration of one score."""

    name: str
    meaning: str
    """One sentence for the documentation and for MLflow."""
    of: Callable[..., Any]
    """How the score is computed; the tuple that it is declared in says from what."""
    section: str = ""
    """Of MLflow's metrics; empty if MLflow does not show the score."""
    highest: bool | None = True
    """Whether more is better; None if neither is."""


def computed(scores: Iterable[Score], *given: Any) -> dict[str, Any]:
    """Return name -> value of scores, each computed from `given`."""
    return {score.name: score.of(*given) for score in scores}


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return name -> value, None for NaN and infinity."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in values.items()
    }
