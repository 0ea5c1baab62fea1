"""What a command shows of its present step: on a terminal, in a log, with `--json`."""

import io

import pytest
from rich.console import Console

from fedgrid.grids.display.steps import StepDisplay


def shown(console, **how):
    with StepDisplay(console, **how) as steps:
        steps.begin_step("Reading [runs]")
        steps.show_count(2, 7)
        steps.remove_line()
        steps.begin_step("Drawing figures")
    return console.file.getvalue()


def test_terminal_has_the_present_step_and_is_cleared_at_the_end():
    text = shown(Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=60))
    assert "Reading [runs]: 2 of 7" in text
    assert "Drawing figures" in text
    clears_line = "\x1b[2K"
    assert text.endswith(clears_line)


def test_log_has_a_line_for_each_step_if_asked():
    text = shown(Console(file=io.StringIO(), width=60), as_lines=True)
    assert text.splitlines() == ["Reading [runs] ...", "Drawing figures ..."]


@pytest.mark.parametrize("how", [{}, {"as_lines": True, "quiet": True}], ids=["a report", "as JSON"])
def test_nothing_is_shown_in_a_file(how):
    assert shown(Console(file=io.StringIO(), width=60), **how) == ""
