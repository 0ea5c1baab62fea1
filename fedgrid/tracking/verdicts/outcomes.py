"""The outcome of a run of the arena, and its csv file: one line a row of the arena, scenario and seed.

The file holds all that a verdict is computed from, with the versions and the processor that made it: no
records of runs are needed.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import isnan, nan
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from fedgrid.redaction import format_csv
from fedgrid.tracking.scoring.client_scores import carry_forward
from fedgrid.tracking.scoring.run import Run

Settings = Literal["default", "tuned"]
Protocol = Literal["served", "fine-tuned"]
GroupKnowledge = Literal["", "number", "groups"]
"""What a method gets of the hidden groups: nothing, their number, or the group of each client."""
Block = tuple[str, str]
"""Data set and family: scores are averaged over its seeds."""
Place = tuple[Block, int]
"""Block and seed."""
KNOWLEDGE_LEVELS: tuple[GroupKnowledge, ...] = ("", "number", "groups")
SETTINGS: tuple[Settings, ...] = ("tuned", "default")
PROTOCOLS: tuple[Protocol, ...] = ("served", "fine-tuned")
"""What a client does before it is tested. `served`: it tests the model that it is served, as it is.
`fine-tuned`: it takes the same number of steps on its own training images first, whatever the method."""
MADE_WITH = ("fedgrid", "python", "torch", "numpy", "processor")
"""Columns with the versions and the processor that made a run."""
SCORES = (
    "ari",
    "exactly_right",
    "clusters",
    "personalised_accuracy",
    "worst_tenth_accuracy",
    "generalised_accuracy",
    "held_out_accuracy",
    "megabytes",
)
"""The numbers of an outcome; NaN where a run has no such number, an empty cell in the file."""


@dataclass(frozen=True)
class ArenaRow:
    """A row of the arena: what an outcome needs that is not in the run's own records."""

    method: str
    """The algorithm's id."""
    title: str
    """Its name in papers."""
    settings: Settings
    protocol: Protocol
    family: str
    """The kind of split, with the sizes of its groups if these are given: `flipped 10+5+3+2`."""
    has_groups: bool
    """Whether the family has hidden groups that can be found."""
    told: GroupKnowledge


@dataclass(frozen=True)
class Outcome(ArenaRow):
    """The result of one run for a method, with its settings and protocol, in one block and seed."""

    is_reference: bool
    dataset: str
    seed: int
    run_id: str
    ari: float
    exactly_right: float
    """1 or 0."""
    clusters: float
    """Number of clusters of the last partition."""
    personalised_accuracy: float
    worst_tenth_accuracy: float
    """Mean over the tenth of the clients, rounded up, with the lowest accuracy."""
    generalised_accuracy: float
    held_out_accuracy: float
    """Mean over clients that never trained."""
    megabytes: float
    """Megabytes sent by all clients and the server in the whole run."""
    tested: tuple[tuple[int, float, float], ...]
    """Round, personalised accuracy and megabytes so far, of each round with a test."""
    clients: tuple[float, ...]
    """The last personalised accuracy of each client, by id; NaN of a client without a test."""
    made_with: Mapping[str, str]
    """Versions and processor, by `MADE_WITH`; a missing one is unknown."""

    @property
    def is_diverged(self) -> bool:
        """Whether the run has diverged; of every other one the last round has a test."""
        return not self.tested

    @property
    def block(self) -> Block:
        """Its data set and family."""
        return self.dataset, self.family

    @property
    def place(self) -> Place:
        """Its block and seed."""
        return self.block, self.seed

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """The key of its line in the file."""
        return self.method, self.settings, self.protocol, *self.block, self.seed


def build_outcome(
    row: ArenaRow, run: Run, made_with: Mapping[str, str], *, has_held_out: bool = False
) -> Outcome:
    """Build the outcome of a finished run, in the digits of the file: ties with stored ones stay ties.

    No client has a model of a run that has diverged: its accuracies and the ARI are 0. Without it the family
    would be lost for all methods, and the worst result of this one would not count.

    Args:
        row: the row of the arena.
        run: with its result.
        made_with: versions and processor, by `MADE_WITH`.
        has_held_out: the scenario has clients that never train (default False).
    """
    tested: list[tuple[int, float, float]] = []
    clients: list[float] = []
    if has_diverged(run):
        # A score that the scenario does not have stays missing, whatever has become of the run.
        missing = [] if has_held_out else ["held_out_accuracy"]
        missing += ["clusters", "megabytes", *(() if row.has_groups else ("ari", "exactly_right"))]
        numbers: dict[str, Any] = {name: nan if name in missing else 0.0 for name in SCORES}
    else:
        accuracy_R, sent_R = run.curves["personalised_accuracy"], run.curves["bytes"] / 1e6
        is_right = run.scores["exactly_right"]
        numbers = {name: _round_digits(run.last(name)) if name in run.curves else nan for name in SCORES}
        numbers["exactly_right"] = nan if is_right is None else is_right
        numbers["megabytes"] = _round_digits(sent_R[-1])
        tested = [
            (int(run.round_R[at]), _round_digits(accuracy_R[at]), _round_digits(sent_R[at]))
            for at in np.flatnonzero(~np.isnan(accuracy_R)).tolist()
        ]
        # Four digits tell two clients apart, and keep the line of a thousand clients short.
        clients = [_round_digits(accuracy, 4) for accuracy in carry_forward(run.accuracy_RK)[-1]]
    return Outcome(
        **asdict(row),
        **numbers,
        is_reference=run.is_reference,
        dataset=run.dataset,
        seed=run.seed,
        run_id=run.run_id,
        tested=tuple(tested),
        clients=tuple(clients),
        made_with={name: made_with[name] for name in MADE_WITH if name in made_with},
    )


def has_diverged(run: Run) -> bool:
    """Check whether a run stopped since no client had a finite update."""
    return "every update is NaN or infinite" in run.cause


def _round_digits(number: float, digits: int = 6) -> float:
    """Round a number to significant digits."""
    return float(f"{number:.{digits}g}")


def to_csv(outcomes: Iterable[Outcome]) -> str:
    """Format the file: a line for each outcome, sorted; the same outcomes give the same bytes."""
    return format_csv([HEADINGS, *map(_format_cells, sorted(outcomes, key=attrgetter("key")))])


def from_csv(text: str, name: str) -> tuple[Outcome, ...]:
    """Parse the outcomes of a file's text.

    Raises:
        ValueError: it is no such file; names the file, and the line or column.
    """
    lines = csv.DictReader(io.StringIO(text))
    # Exactly these columns: a verdict over a file of another version would mix different scores.
    if tuple(lines.fieldnames or ()) != HEADINGS:
        missing = [heading for heading in HEADINGS if heading not in (lines.fieldnames or ())]
        raise ValueError(f"{name} has other columns than outcomes of this version: {missing} are missing")
    outcomes = []
    # Line 1 has the headings.
    for number, line in enumerate(lines, start=2):
        try:
            outcomes.append(_parse_line(line))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{name}, line {number}: {error}") from error
    return tuple(outcomes)


_NAMES = (
    *("method", "title", "settings", "protocol", "dataset", "family", "seed"),
    *("is_reference", "has_groups", "run_id"),
    *(name for name in SCORES if name != "held_out_accuracy"),
)
_TESTED = ("tested_rounds", "tested_accuracy", "tested_megabytes")
# Columns added later stand at the end, so that a line of an earlier file differs in its last cells only.
_LATER = ("told", "held_out_accuracy")
HEADINGS = (*_NAMES, *_TESTED, *MADE_WITH, *_LATER, "clients")


def _format_cells(outcome: Outcome) -> list[str]:
    """Format the cells of an outcome's line, in the order of `HEADINGS`."""
    rounds, accuracies, sent = zip(*outcome.tested, strict=True) if outcome.tested else ((), (), ())
    return [
        *(_format_cell(getattr(outcome, name)) for name in _NAMES),
        *(" ".join(map(_format_cell, values)) for values in (rounds, accuracies, sent)),
        *(outcome.made_with.get(name, "") for name in MADE_WITH),
        *(_format_cell(getattr(outcome, name)) for name in _LATER),
        " ".join(f"{accuracy:.4g}" for accuracy in outcome.clients),
    ]


def _format_cell(value: Any) -> str:
    """Format one value: numbers with six digits, NaN empty, booleans as 1 or 0."""
    if isinstance(value, float):
        # As many digits as `build_outcome` rounds to: an outcome that is read equals the one that was
        # written.
        return "" if isnan(value) else f"{value:.6g}"
    return str(int(value)) if isinstance(value, bool) else str(value)


def _parse_line(line: Mapping[str, str]) -> Outcome:
    """Parse the outcome of a line.

    Raises:
        ValueError: a cell cannot be read.
    """
    if line["settings"] not in SETTINGS or line["protocol"] not in PROTOCOLS:
        raise ValueError(f"settings {line['settings']!r}, protocol {line['protocol']!r}: no such row")
    columns = [line[name].split() for name in _TESTED]
    if (knowledge := line["told"]) not in KNOWLEDGE_LEVELS:
        levels = ", ".join(map(repr, KNOWLEDGE_LEVELS))
        raise ValueError(f"column `told`, {knowledge!r}: expected one of {levels}")
    texts = ("method", "title", "settings", "protocol", "dataset", "family", "run_id", "told")
    values: dict[str, Any] = {name: line[name] for name in texts}
    # An empty cell is a number that the run does not have.
    values |= {name: float(line[name]) if line[name] else nan for name in SCORES}
    values |= {name: line[name] == "1" for name in ("is_reference", "has_groups")}
    return Outcome(
        **values,
        seed=int(line["seed"]),
        tested=tuple(
            (int(number), float(accuracy), float(sent))
            for number, accuracy, sent in zip(*columns, strict=True)
        ),
        clients=tuple(map(float, line["clients"].split())),
        made_with={name: line[name] for name in MADE_WITH if line[name]},
    )
