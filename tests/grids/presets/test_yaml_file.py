"""Numbers that YAML 1.1 reads otherwise than people do."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.yaml_file import parse_value, read_yaml


@pytest.mark.parametrize(
    ("text", "value", "instead"),
    [
        ("1:10", "70", r"1\.\.10 for a range of seeds"),
        ("1:30:20", "5420", "5420"),
        ("1:30.5", "90.5", "90.5"),
        ("010", "8", "10 or 8"),
        ("-0_10", "-8", "-10 or -8"),
        ("[1, {a: 012}]", "10", "12 or 10"),
    ],
)
def test_misleading_number_is_refused(text, value, instead):
    with pytest.raises(ConfigError, match=rf"^seeds: .* is {value} in YAML \(base .*: write .*{instead}"):
        parse_value(text, "seeds")


def test_misleading_number_of_a_file_has_its_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: digits\nseeds: 1:10\n")
    with pytest.raises(ConfigError, match=r"mine.yaml: line 2: 1:10 is 70"):
        read_yaml(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("00", 0),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-3", -3),
        ("0.5", 0.5),
        ("'010'", "010"),
    ],
)
def test_other_numbers_stay(text, value):
    assert parse_value(text, "x") == value
