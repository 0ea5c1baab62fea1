"""Names of algorithms and scores: the ids here, the names in papers, and usual short names."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

AS_PUBLISHED = "as published"
"""Ends the names of scores, and in papers' tables those of algorithms, that share a paper's mistakes."""
SUFFIX = "-as-published"
"""Ends the ids of such algorithms."""
SHORT_NAMES = {
    "acc": "personalised_accuracy",
    "accuracy": "personalised_accuracy",
    "auc": "personalised_auc",
    "balanced_accuracy": "personalised_balanced_accuracy",
    "ece": "personalised_ece",
    "f1": "personalised_f1",
    "gap": "learning_gap",
    "nmi": "ami",
    "r2": "personalised_r2",
}
"""Usual short name of a score -> the score that is meant most often."""


def nearest_score(name: str, names: Collection[str]) -> str:
    """Format a question that suggests the nearest score, empty if none is near."""
    short = SHORT_NAMES.get(name.lower())
    near = [short] if short in names else get_close_matches(name.lower(), names, 1)
    return f"did you mean '{near[0]}'? " if near else ""


def is_as_published(algorithm: str) -> bool:
    """Check whether an algorithm, by its id with or without settings, is one with a paper's mistakes."""
    return strip_settings(algorithm).endswith(SUFFIX)


def strip_settings(algorithm: str) -> str:
    """Strip the settings from `Run.algorithm`: `sattler` of `sattler (cooldown 5)`."""
    return algorithm.partition(" (")[0]


def name_in_papers(algorithm: str, published: str | None) -> str:
    """Format the name of `Run.algorithm` in papers' tables, by `Run.published`: `SCL (cooldown 5)`."""
    if not published:
        return algorithm
    method = strip_settings(algorithm)
    suffix = f" {AS_PUBLISHED}" if is_as_published(method) else ""
    return published + suffix + algorithm.removeprefix(method)


def names_line(published: Mapping[str, str | None]) -> str:
    """Format a sentence on the names of algorithms in papers, empty if they have no other names.

    Args:
        published: `Run.algorithm` -> `Run.published`.
    """
    # An algorithm and its variant as published share a name in papers, and get one entry.
    names = {
        strip_settings(algorithm).removesuffix(SUFFIX): name for algorithm, name in published.items() if name
    }
    words = [f"{method} {name}" for method, name in names.items() if name.lower().replace(" ", "-") != method]
    return f"Names in papers: {', '.join(words)}." if words else ""
