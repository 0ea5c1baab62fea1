"""Charts of characters: a sparkline, and the map of clusters in colour blocks.

Each block is a character that names its cluster, black on its colour: without colours, as in a
file, the characters are read.

Shapes: R rounds, K clients.
"""

from collections.abc import Iterator, Sequence
from string import ascii_letters, digits

import numpy as np
from rich.text import Text

from fedgrid.tracking.arrays import Array

BARS = "▁▂▃▄▅▆▇█"
MARKS = digits + ascii_letters
OTHER = "#"
"""Of a cluster beyond the `MARKS`."""
COLOURS = (25, 214, 36, 176, 74, 166, 220, 99, 65, 131, 244, 30)
"""Of the 256 colours of a terminal."""
MOST_CLIENTS = 40
"""Clients that have a line each."""


def sparkline(values_R: Array, width: int) -> str:
    """Return a character for each value, or for the mean of neighbours if there are more than `width`.

    A value that is NaN is a space.
    """
    means = [_mean(part) for part in np.array_split(values_R, min(len(values_R), width))]
    known = [value for value in means if value == value]
    if not known:
        return ""
    low, high = min(known), max(known)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(BARS[round((value - low) / step)] if value == value else " " for value in means)


def cluster_map(labels_RK: Array, truth_K: Array, round_R: Array, width: int) -> Iterator[Text]:
    """Yield the lines of a map: a line a client, by hidden group, and a block a round.

    With more than `MOST_CLIENTS` clients, or a single round: the last round, a line a hidden group.
    """
    if len(truth_K) > MOST_CLIENTS or len(round_R) == 1:
        yield from _final(labels_RK[-1], truth_K, width)
        return
    places = _places(len(round_R), width - len("client 00  "))
    wide = 2 if 2 * len(places) <= width - len("client 00  ") else 1
    yield Text(f"{'group':>5} {'client':>6}  rounds {round_R[places[0]]} to {round_R[-1]}", "bold")
    before = None
    for client in np.argsort(truth_K, kind="stable"):
        group = int(truth_K[client])
        line = Text(f"{group if group != before else '':>5} {client:>6}  ")
        for place in places:
            line.append_text(_block(int(labels_RK[place, client]), wide))
        before = group
        yield line


def _final(labels_K: Array, truth_K: Array, width: int) -> Iterator[Text]:
    yield Text(f"{'group':>5}  clients by their cluster in the last round", "bold")
    for group in np.unique(truth_K):
        labels = np.sort(labels_K[truth_K == group])
        for first in range(0, len(labels), width - 7):
            line = Text(f"{'' if first else int(group):>5}  ")
            for label in labels[first : first + width - 7]:
                line.append_text(_block(int(label), 1))
            yield line


def _places(num: int, width: int) -> Sequence[int]:
    """Return at most `width` of `num` indices, evenly spaced, the last one among them."""
    chosen = np.linspace(0, num - 1, min(num, max(1, width)))
    return [int(place) for place in np.round(chosen)]


def _block(label: int, wide: int) -> Text:
    mark = MARKS[label] if 0 <= label < len(MARKS) else OTHER
    colour = COLOURS[label % len(COLOURS)]
    return Text(mark * wide, f"color(16) on color({colour})")


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
