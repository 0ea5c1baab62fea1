"""The faults that `tests.helpers.mutants` puts into code."""

from pathlib import Path

from tests.helpers.mutants import make_mutants

CODE = '''\
def clip(value: float, bound: int = 3) -> float:
    """é"""
    log(value)
    if value <= bound and not value == 1:
        return bound + 1
    raise ValueError(f"{1 + 1}")
'''


def test_each_operator_number_and_call_is_changed_once_but_for_what_is_raised():
    mutants = list(make_mutants(Path("clip.py"), CODE))
    assert sorted(mutant.change for mutant in mutants) == [
        "1 -> 2",
        "1 -> 2",
        "bound + 1 -> bound - 1",
        "log(value) -> pass",
        "not value == 1 -> value == 1",
        "value <= bound -> value < bound",
        "value <= bound and (not value == 1) -> value <= bound or not value == 1",
        "value == 1 -> value != 1",
    ]
    changed = next(mutant for mutant in mutants if mutant.change.startswith("bound + 1"))
    assert changed.text == CODE.replace("bound + 1", "(bound - 1)")
    assert str(changed) == "clip.py:5: bound + 1 -> bound - 1"
