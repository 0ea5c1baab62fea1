"""A part of what `fedgrid doctor` finds."""

from dataclasses import dataclass, field

GIB = 2**30


@dataclass
class Section:
    """Facts, each with a name; and what must be fixed, each in one line with the next step."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
