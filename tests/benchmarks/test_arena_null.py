"""Verdicts on methods that are equal: every planned comparison is counted, kinds are shuffled."""

import re

import pytest

from benchmarks.arena_null import main


def test_few_arenas_of_equal_methods_have_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    main(["40"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("clustering, served: 12 kinds, 9 planned comparisons of 10 methods")
    shares = [float(re.findall(r"([\d.]+)%", line)[0]) for line in lines[:4]]
    assert lines[8].endswith("clustering, served: evident-groups against sattler: p 0.092 of 67")
    # At 5 % more than 7 of 40 is a matter of one in a thousand.
    assert max(shares[:3]) <= 17.5
