"""The page of the keys of a run, of a grid's file and of a search's file: those of `fedgrid list keys`."""

from collections.abc import Iterable, Iterator

from docs.reference.markdown import code, page, paragraphs, table
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.training.settings import Schedule
from fedgrid.grids.cli.actions.reference import BY_DATA_SET, KeyRow, key_sections
from fedgrid.grids.presets.axis_keys import SECTIONS
from fedgrid.grids.search.objectives import OBJECTIVES

HEADER = ("key", "default", "allowed", "meaning")
NOTES = {
    "A run": "The settings of each algorithm: [algorithms](algorithms/index.md). "
    "Data sets, models and splits: [data](data.md).",
    **{name: " ".join(paragraphs(RunConfig.model_fields[name].annotation)[0].split()) for name in SECTIONS},
    "uplink": "A list of steps, in this order; each has one key.",
    "training.schedule": " ".join(paragraphs(Schedule)[0].split()),
    "drift": "Of each client that moves.",
    "A grid's file": "Beside the keys of a run, of which `dataset`, `split`, `clients`, `seed` and "
    "`algorithm` may be lists.",
    "A search's file": "Beside the keys of a grid's file. How to: [searches](../searches.md).",
}
"""Heading of a section -> what stands above its table."""


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    sections = (
        part
        for heading, rows in key_sections().items()
        for part in (f"## {heading}", NOTES[heading], table(HEADER, _cells(rows)))
    )
    return {
        "reference/configuration.md": page(
            "# Configuration keys",
            "Keys of a grid's YAML file. On the command line: `KEY=VALUE`, with dots, as in "
            "`training.rounds=5`. Any key of a run can be an axis: `axes: {training.rounds: [5, 10]}`. "
            "On the terminal: `fedgrid list keys`, or `fedgrid list keys training.rounds` for one; "
            "`fedgrid list schema` prints them as JSON Schema, by which editors complete and check "
            "files. How to write a file: [presets](../presets.md).",
            *sections,
            table(("`objective`", "the score of a run", "needs the hidden groups"), _objectives()),
        )
    }


def _cells(rows: Iterable[KeyRow]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        default = row.default if row.default == BY_DATA_SET else code(row.default)
        yield code(row.key), default, row.allowed, row.meaning


def _objectives() -> Iterator[tuple[str, str, str]]:
    for name, objective in OBJECTIVES.items():
        yield code(name), objective.words, "yes: an oracle" if objective.is_oracle else "no"
