"""The JSON Schema of a grid's file: it takes what fedgrid takes, and refuses what an editor can see."""

import json

import pytest
import yaml
from jsonschema import Draft7Validator

from fedgrid.grids.cli.actions.schema import build_schema
from fedgrid.grids.presets.preset_files import list_presets, read_preset_text
from tests.helpers.command_line import fedgrid


@pytest.fixture(scope="module")
def validator():
    found = build_schema()
    Draft7Validator.check_schema(found)
    return Draft7Validator(found)


def errors(validator, text):
    """JSON has no numbers for keys, as `joins` has."""
    return [error.json_path for error in validator.iter_errors(json.loads(json.dumps(yaml.safe_load(text))))]


@pytest.mark.parametrize("name", list_presets())
def test_every_preset_agrees_with_the_schema(validator, name):
    assert errors(validator, read_preset_text(name)) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("training: {rouns: 3}", "$.training"),
        ("algorithm: {name: sattler, cooldwn: 3}", "$.algorithm"),
        ("algorithm: [{name: ocfl-hdbscan, clusterer: {min_share: 1}}]", "$.algorithm"),
        ("axes: {training.rouns: [1, 2]}", "$.axes"),
        ("overrides: [{when: {dataset: mnist}, them: {}}]", "$.overrides[0]"),
        ("search: {cooldown: {lo: 1}}", "$.search.cooldown"),
        ("plugin_digests: []", "$"),
    ],
)
def test_what_fedgrid_refuses_is_marked_at_its_place(validator, text, where):
    assert errors(validator, text) == [where]


@pytest.mark.parametrize(
    "text",
    [
        "dataset: npz:mine.npz",
        "seeds: 0..4",
        "algorithm: {name: ocfl-hdbscan, clusterer: {min_cluster_share: 0.3}, window: 2}",
        "algorithm: {name: fedavg, local: {name: fedprox, mu: 0.1}}",
        "axes: {algorithm.local: [null, {name: fedprox, mu: 0.5}], training.rounds: 3}",
        "search: {linkage: [single, complete], epsilon_1: {low: 0.1, high: 1, log: true}}\ntrials: 8",
    ],
)
def test_what_fedgrid_takes_is_not_marked(validator, text):
    assert errors(validator, text) == []


def test_keys_carry_their_meaning_and_an_algorithms_its_own_defaults(validator):
    found = validator.schema
    assert "Client" not in found["properties"]
    assert "batch_size" in found["definitions"]["Training"]["properties"]
    assert found["definitions"]["Training"]["properties"]["momentum"]["description"] == "Momentum of SGD."
    (sattler,) = [
        one
        for one in found["properties"]["algorithm"]["anyOf"][0]["anyOf"]
        if one.get("properties", {}).get("name", {}).get("const") == "sattler-as-published"
    ]
    assert sattler["properties"]["linkage"]["default"] == "complete"


def test_command_prints_the_schema_as_json():
    printed = json.loads(fedgrid("list", "schema").out)
    assert printed["properties"].keys() >= {"dataset", "algorithm", "search", "axes"}
