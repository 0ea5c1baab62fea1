"""Print keys of files, columns and scores of runs, and commands; the site has the same tables."""

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import PydanticUndefined, to_jsonable_python
from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import PLUGINS_KEY, Move, RunConfig
from fedgrid.engine.federation.errors import ConfigError, suggest_name
from fedgrid.engine.federation.record_names import COUNTS, MESSAGE
from fedgrid.engine.federation.training.settings import Schedule
from fedgrid.engine.federation.uplink.steps import STEPS
from fedgrid.engine.runtime.configuration.complete import DEFAULTS as RUN_DEFAULTS
from fedgrid.grids.cli.actions.schema import build_schema
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.presets.axis_keys import SECTIONS
from fedgrid.grids.presets.key_docs import describe_schema, read_field_docs
from fedgrid.grids.presets.preset_files import PRESET_KEYS
from fedgrid.grids.search.definition import DEFAULTS as SEARCH_DEFAULTS
from fedgrid.grids.search.definition import OWN_KEYS
from fedgrid.record_columns import EVERY_COLUMN
from fedgrid.tracking.scoring.client_scores import HARM, ONLY_CURVES, PREDICTED, PROBABILITIES
from fedgrid.tracking.scoring.disturbances import DRIFT, FAULTS, HELD_OUT
from fedgrid.tracking.scoring.partitions import CLUSTERING_SCORES
from fedgrid.tracking.scoring.scores import ROUND_SCORES
from fedgrid.tracking.scoring.selection import format_value

BY_DATA_SET = "by data set"
"""The default of keys that `runtime.configuration.complete` fills in."""


class KeyRow(NamedTuple):
    """What is known of a key of a file; texts that do not apply are empty."""

    key: str
    default: str
    allowed: str
    meaning: str


class ColumnRow(NamedTuple):
    """A column of a run's records, or a score that is computed from them."""

    name: str
    file: str
    """`rounds.parquet`, `clients.parquet`, `timings.parquet`, or `computed` for a score."""
    type: str
    meaning: str


class CommandRow(NamedTuple):
    """A command, and the first sentence of its help."""

    command: str
    meaning: str


def print_keys(name: str | None, as_json: bool, console: Console) -> None:
    """Print the keys of a run, of a grid's file and of a search's file; or those of a section, or one.

    Raises:
        ConfigError: there is no such key or section.
    """
    every = key_sections()
    chosen = {
        section: [row for row in rows if name in (None, section) or _is_within(row.key, name)]
        for section, rows in every.items()
    }
    choices = [*every, *(row.key for rows in every.values() for row in rows)]
    chosen = {section: rows for section, rows in chosen.items() if rows}
    _print_rows("key", name, choices, chosen, as_json, console)
    if not as_json:
        console.print("\nSettings of an algorithm: fedgrid list algorithms NAME")


def print_columns(name: str | None, as_json: bool, console: Console) -> None:
    """Print the columns of a run's records and the scores; or those of a file, or one.

    Raises:
        ConfigError: there is no such column, score or file.
    """
    sections: dict[str, list[ColumnRow]] = {}
    every = list(column_rows())
    for row in every:
        if name in (None, row.name, row.file, row.file.partition(".")[0]):
            sections.setdefault(row.file, []).append(row)
    choices = [row.name for row in every]
    _print_rows("column", name, choices, sections, as_json, console)


def print_commands(name: str | None, group: Any, as_json: bool, console: Console) -> None:
    """Print the commands of a click group, those of its groups too; or one of them.

    Raises:
        ConfigError: there is no such command.
    """
    every = list(command_rows(group))
    rows = [row for row in every if name is None or _is_within(row.command, name, " ")]
    choices = [row.command for row in every]
    _print_rows("command", name, choices, {"": rows} if rows else {}, as_json, console)
    if not as_json:
        console.print("\nOptions of one: fedgrid COMMAND --help")


def key_sections() -> dict[str, list[KeyRow]]:
    """Return heading -> the keys of a run, of its sections, of a grid's file and of a search's file."""
    fields = RunConfig.model_fields
    sections = {
        name: [row._replace(key=f"{name}.{row.key}") for row in _model_rows(fields[name].annotation)]
        for name in SECTIONS
    }
    of_file = (key for key in PRESET_KEYS if key not in fields)
    return {
        "A run": [row for row in _model_rows(RunConfig) if row.key not in {*SECTIONS, PLUGINS_KEY}],
        **sections,
        "uplink": list(_step_rows()),
        "training.schedule": list(_model_rows(Schedule)),
        "drift": [row._replace(default="") for row in _model_rows(Move)],
        "A grid's file": list(_file_rows(of_file, {})),
        "A search's file": list(_file_rows(OWN_KEYS, SEARCH_DEFAULTS)),
    }


def column_rows() -> Iterator[ColumnRow]:
    """Yield the columns of each file of records, then the scores that are no column."""
    for file, columns in EVERY_COLUMN.items():
        for column in columns:
            yield ColumnRow(column.name, f"{file}.parquet", str(column.type), column.meaning)
    for name, meaning in computed_scores().items():
        yield ColumnRow(name, "computed", "double", meaning)


def recorded_numbers() -> dict[str, str]:
    """Return name -> meaning of the numbers of a round that the records have."""
    return {
        column.name: column.meaning
        for column in EVERY_COLUMN["rounds"]
        if column.only not in (COUNTS, MESSAGE) and column.name != "round"
    }


def computed_scores() -> dict[str, str]:
    """Return name -> meaning of the scores that are computed from the records."""
    recorded = recorded_numbers()
    every = (*ROUND_SCORES, *PROBABILITIES, *PREDICTED, *ONLY_CURVES, *FAULTS, *DRIFT, *HELD_OUT, *HARM)
    by_round = {score.name: score.meaning for score in every if score.name not in recorded}
    return {**by_round, **CLUSTERING_SCORES}


def command_rows(group: Any, prefix: str = "") -> Iterator[CommandRow]:
    """Yield the commands of a click group in their order."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from command_rows(command, f"{prefix}{name} ")
        elif not command.hidden:
            yield CommandRow(f"{prefix}{name}", " ".join((command.help or "").split("\n\n")[0].split()))


def _is_within(key: str, name: str | None, separator: str = ".") -> bool:
    return key == name or key.startswith(f"{name}{separator}")


def _model_rows(kind: Any) -> Iterator[KeyRow]:
    """Yield the keys that a model of the configuration declares."""
    properties, meanings = kind.model_json_schema()["properties"], read_field_docs(kind)
    for key, field in kind.model_fields.items():
        default = field.get_default()
        if default is PydanticUndefined:
            default = RUN_DEFAULTS.get(key, default)
        shown = BY_DATA_SET if default is PydanticUndefined else format_value(to_jsonable_python(default))
        yield KeyRow(key, shown, describe_schema(properties[key]), meanings.get(key, ""))


def _step_rows() -> Iterator[KeyRow]:
    for name, kind in STEPS.items():
        about = " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())
        values = describe_schema(kind.model_json_schema()["properties"][name])
        yield KeyRow(name, "", values, f"{about} {read_field_docs(kind).get(name, '')}".strip())


def _file_rows(keys: Iterable[str], defaults: Mapping[str, object]) -> Iterator[KeyRow]:
    """Yield keys of a file that are none of a run, as the file's schema describes them."""
    properties = build_schema()["properties"]
    for key in keys:
        default = format_value(defaults[key]) if key in defaults else ""
        values = " or ".join(properties[key].get("enum", []))
        yield KeyRow(key, default, values, str(properties[key].get("description", "")))


def _print_rows(
    kind: str,
    name: str | None,
    choices: Iterable[str],
    sections: Mapping[str, Sequence[KeyRow | ColumnRow | CommandRow]],
    as_json: bool,
    console: Console,
) -> None:
    """Print the rows of each section below its heading; a single section has none.

    Raises:
        ConfigError: there are none; names the nearest of `choices`.
    """
    if not sections:
        suggestion = suggest_name(str(name), choices)
        raise ConfigError(f"unknown {kind} '{name}'; {suggestion}fedgrid list {kind}s shows all")
    rows = [row for of_section in sections.values() for row in of_section]
    if as_json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    shown: list[Sequence[str]] = []
    for heading, of_section in sections.items():
        shown += [(heading,), *of_section] if len(sections) > 1 else of_section
    console.print(TextTable(rows[0]._fields, shown))
