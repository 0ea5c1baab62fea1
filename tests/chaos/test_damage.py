"""Two damaged files of a finished grid; every file in every way: python -m tests.chaos.damage."""

from pathlib import Path

import pytest

from tests.chaos.damage import DAMAGES, check, make, victims

pytestmark = pytest.mark.usefixtures("in_mlflow")


@pytest.mark.slow
def test_damaged_files_give_no_other_numbers(tmp_path):
    """The records of a finished run are set aside and computed again; a damaged list of runs is refused."""
    whole = make(tmp_path)
    by_name = {victim.name: victim for victim in reversed(victims(whole))}
    for name, how, end in (
        ("clients.parquet", "bit flipped at 30%", "set aside"),
        ("runs.jsonl", "cut in half", "refused"),
    ):
        assert check(whole, Path(by_name[name]), DAMAGES[how], tmp_path) == (end, [])
