"""Sentences on an arena's results; each repeats what a table beside it holds."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedgrid.tracking.tables.table import fixed
from fedgrid.tracking.verdicts.families import ALIKE, BNC
from fedgrid.tracking.verdicts.field import Field, in_every_family
from fedgrid.tracking.verdicts.figures import Point, front
from fedgrid.tracking.verdicts.result_tables import score_of


def of_clustering(field: Field) -> str:
    """Return who finds the hidden groups, and who cuts up clients that do not differ."""
    rights = {
        method: round(field.standings[method].also * field.standings[method].num_blocks)
        for method in field.competing
    }
    always = [method for method in field.competing if rights[method] == field.blocks]
    most = max(rights.values())
    often = [method for method in field.competing if rights[method] == most]
    right = (
        f"The clusters are the hidden groups in all {field.blocks} blocks for {_titles(field, always)}."
        if always
        else f"No method finds the groups in all {field.blocks} blocks; most often, in {most}, "
        f"{_titles(field, often)}."
    )
    head = (
        f"{len(field.competing)} methods form clusters. Blocks with groups: {field.where}.{_left_out(field)}"
    )
    words = [head, right, _leader(field)]
    if ALIKE in field.names_of_families:
        alike = {method: field.families[method].get(ALIKE) for method in field.competing}
        whole = [method for method, found in alike.items() if found and found.is_right]
        words.append(
            f"Clients that do not differ ({ALIKE}) stay one cluster in every seed for "
            f"{_titles(field, whole)}."
        )
    return "\n\n".join(words)


def of_serving(field: Field) -> str:
    """Return who serves clients best, and who better or worse than BNC."""
    head = f"{len(field.competing)} methods. Blocks: {field.where}.{_left_out(field)}"
    worst = max(field.competing, key=lambda method: field.standings[method].also)
    words = [_leader(field)]
    if BNC in field.pairwise.better:
        better = [method for method in field.competing if BNC in field.pairwise.better[method]]
        worse = [method for method in field.competing if method in field.pairwise.better[BNC]]
        like = len(field.competing) - 1 - len(better) - len(worse)
        words.append(
            f"Shown to be better than BNC: {_titles(field, better)}; worse: {_titles(field, worse)}; not "
            f"shown to differ from it: {like}."
        )
    words.append(
        f"The tenth of the clients that is served worst has most with {field.title(worst)} "
        f"({fixed(field.standings[worst].also, 3)})."
    )
    return "\n\n".join((head, *words))


def of_fronts(points: Mapping[str, Mapping[str, Point]]) -> str:
    """Return, for each protocol, the methods than which no other has as much accuracy for as few bytes."""
    return "\n\n".join(
        f"{words[0].upper()}{words[1:]}, from few bytes to many: "
        + ", ".join(
            f"{name} ({each[name].megabytes:.3g} MB, {fixed(each[name].accuracy, 3)})" for name in front(each)
        )
        + ". Every other method has one of these that is as accurate for no more bytes."
        for words, each in points.items()
    )


def of_families(serving: Mapping[str, Field]) -> str:
    """Return, for each protocol, where methods fail."""
    return "\n\n".join(
        f"{words[0].upper()}{words[1:]}: {_of_families(field)}" for words, field in serving.items()
    )


def of_defaults(columns: Sequence[tuple[str, Field | None, Field]], titles: Mapping[str, str]) -> str:
    """Return by how much tuning changes the scores."""
    said = []
    for heading, default, tuned in columns:
        changes = {
            title: after - before
            for method, title in titles.items()
            if (before := score_of(default, method)) is not None
            and (after := score_of(tuned, method)) is not None
        }
        if changes:
            lower = [title for title, change in changes.items() if fixed(change, 3).startswith("-")]
            least, most, middle = (
                fixed(value, 3)
                for value in (
                    min(changes.values()),
                    max(changes.values()),
                    float(np.median([*changes.values()])),
                )
            )
            said.append(
                f"{heading}: tuned less default from {least} to {most}, median {middle}; lower for "
                f"{_listed(lower)}."
            )
    return "\n\n".join(said)


def _of_families(field: Field) -> str:
    rivals = [method for method in field.competing if method != BNC]
    ill = {
        family: sum(_gain(field, method, family) < 0 for method in rivals)
        for family in field.names_of_families
    }
    counts = ", ".join(f"{family} ({count})" for family, count in ill.items())
    never = [method for method in rivals if not any(_gain(field, method, family) < 0 for family in ill)]
    above = in_every_family(field.families, field.competing)
    return (
        f"of {len(rivals)} methods, served worse than by BNC on average: {counts}. In no family worse than "
        f"BNC: {_titles(field, never)}. In no family worse than ORACLE: {_titles(field, above)}."
    )


def _gain(field: Field, method: str, family: str) -> float:
    found = field.families[method].get(family)
    return 0.0 if found is None else found.gain


def _leader(field: Field) -> str:
    pairwise = field.pairwise
    ranks = pairwise.ranking.ranks
    best = min(ranks.values())
    first = [method for method in ranks if ranks[method] == best]
    others = [method for method in ranks if method not in first]
    like = [method for method in others if not all(method in pairwise.better[one] for one in first)]
    apart = f"{pairwise.num_apart} of {pairwise.num_pairs} pairs of methods are shown to differ."
    if not others:
        return f"All methods share the mean rank {fixed(best, 1)}. {apart}"
    has, it = ("has", "It is") if len(first) == 1 else ("share", "Each of them is")
    return (
        f"{_titles(field, first)} {has} the best mean rank ({fixed(best, 1)}). {it} shown to be better than "
        f"{len(others) - len(like)} of the {len(others)} others"
        + (f", not than {_titles(field, like)}" if like else "")
        + f". {apart}"
    )


def _left_out(field: Field) -> str:
    if not field.left_out:
        return ""
    return f" {field.left_out} more blocks are left out: not every method has a result there."


def _titles(field: Field, methods: Iterable[str]) -> str:
    return _listed([field.title(method) for method in methods])


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return names[0] if names else "none"
    return f"{', '.join(names[:-1])} and {names[-1]}"
