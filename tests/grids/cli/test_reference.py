"""`fedgrid list keys`, `columns` and `commands`: what a reader without the site looks up."""

import json

import pytest

from fedgrid.engine.federation.configuration.run_config import SETTABLE_KEYS
from fedgrid.grids.presets.axis_keys import SECTIONS
from fedgrid.grids.presets.preset_files import PRESET_KEYS
from fedgrid.grids.search.definition import OWN_KEYS
from fedgrid.record_columns import EVERY_COLUMN
from tests.helpers.command_line import fedgrid


def listed(*words: str) -> list[dict[str, str]]:
    return json.loads(fedgrid("list", *words, "--json").out)


def test_every_key_has_a_meaning_and_a_section_is_chosen_by_its_name() -> None:
    rows = listed("keys")
    keys = {row["key"] for row in rows}
    sections = {f"{name}.{key}" for name, its in SECTIONS.items() for key in its}
    assert keys >= {*SETTABLE_KEYS, *sections, *PRESET_KEYS, *OWN_KEYS} - set(SECTIONS)
    assert [row["key"] for row in rows if not row["meaning"]] == []
    assert listed("keys", "training")[0]["key"] == "training.rounds"
    assert {row["key"] for row in listed("keys", "uplink")} >= {"uplink", "clip", "noise"}


def test_one_key_is_shown_with_its_default_and_what_is_allowed() -> None:
    assert listed("keys", "training.local_epochs") == [
        {
            "key": "training.local_epochs",
            "default": "3",
            "allowed": "integer > 0 and <= 1000000",
            "meaning": "Passes of a client over its training images in a round.",
        }
    ]
    shown = fedgrid("list", "keys", "training.local_epochs").out
    assert "training.local_epochs  3" in shown
    assert "fedgrid list algorithms NAME" in shown


def test_columns_of_a_file_and_scores() -> None:
    rows = listed("columns")
    assert [row["name"] for row in rows if not row["meaning"]] == []
    assert [row["name"] for row in listed("columns", "rounds")] == [
        one.name for one in EVERY_COLUMN["rounds"]
    ]
    assert {row["file"] for row in listed("columns", "ari")} == {"computed"}


def test_commands_are_those_of_the_command_line_with_those_of_groups() -> None:
    rows = {row["command"]: row["meaning"] for row in listed("commands")}
    assert set(rows) >= {"run", "bundle make", "bundle check", "list"}
    assert all(rows.values())
    assert [row["command"] for row in listed("commands", "bundle")] == ["bundle make", "bundle check"]


@pytest.mark.parametrize("kind", ["keys", "columns", "commands"])
def test_unknown_name_is_refused_with_the_command_that_lists_all(kind: str) -> None:
    refused = fedgrid("list", kind, "no-such-name")
    assert refused.code == 2
    assert "no-such-name" in refused.err
    assert f"fedgrid list {kind}" in refused.err


def test_nearest_key_is_suggested() -> None:
    assert "did you mean 'training.rounds'?" in fedgrid("list", "keys", "training.round").err
