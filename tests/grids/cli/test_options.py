"""Values of options that fedgrid parses itself."""

import pytest
from typer import BadParameter

from fedgrid.grids.cli.commands.options import parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200GB", 200 * 10**9),
        ("1.5 gib", 3 * 2**29),
        (".5kB", 500),
        ("12", 12),
        ("7b", 7),
        ("1TiB", 2**40),
        ("2 TB", 2 * 10**12),
    ],
)
def test_size_is_a_number_with_an_optional_unit(text, expected):
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "GB", "0GB", "0.1B", "-1GB", "1,5GB", "5XB", "1e3", "nan", "1 G B", "1.5.2GB"]
)
def test_refused_size_is_named_with_an_example_and_the_units(text):
    with pytest.raises(BadParameter) as refused:
        parse_size(text)
    message = str(refused.value)
    assert message.startswith(repr(text))
    assert all(word in message for word in ("200GB", "KB", "TiB"))
