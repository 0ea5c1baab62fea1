"""A user's own tables and figures in a report."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.cli.actions.reports import build_own_sections, insert_sections
from fedgrid.tracking.report.page import Page
from fedgrid.tracking.tables.personalisation import build_fairness_table
from tests.helpers.plugin_files import ALGORITHM
from tests.helpers.studies import WHOLE, make_result, make_run, make_study

DOCS = Path(__file__).parents[3] / "docs"
CURVES = {"ari": (0.0, 1.0), "worst_client_accuracy": (0.5, 0.25)}
STUDY = make_study([make_result(make_run("fedavg"), WHOLE, curves=CURVES)])


def written(tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text(text)
    return path


def test_example_of_the_docs_makes_a_table_and_a_figure():
    [section] = build_own_sections([DOCS / "own_report.py"], STUDY)
    table, plate = section.items
    assert table.rows[0].cells[0].value == 0.25
    assert (plate.name, plate.title) == ("own-speed", "Rounds until the partition is right")
    assert plate.caption == "The first round with an ARI of 1; runs that never get there are left out."
    [axes] = plate.draw().axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[2]]


def test_its_mean_and_deviation_are_those_of_the_report():
    """Over seeds, of means over scenarios: not over scenarios, whose levels differ."""
    levels = {(10, 0): 0.1, (10, 1): 0.2, (50, 0): 0.7, (50, 1): 0.9}
    study = make_study(
        [
            make_result(
                make_run("fedavg", seed=seed, clients=clients),
                WHOLE,
                curves={"worst_client_accuracy": (0.0, level)},
            )
            for (clients, seed), level in levels.items()
        ]
    )
    [section] = build_own_sections([DOCS / "own_report.py"], study)
    *_, column = [
        place for place, each in enumerate(build_fairness_table(study).columns) if each.name == "worst client"
    ]
    own, theirs = section.items[0].rows[0].cells[0], build_fairness_table(study).rows[0].cells[column]
    assert (own.value, own.spread) == (theirs.value, theirs.spread)
    assert own.spread == pytest.approx(0.15 / 2**0.5)


def test_section_follows_the_first_one_of_the_report():
    sections = build_own_sections([DOCS / "own_report.py"], STUDY)
    assert insert_sections(Page("report", (), ()), sections).sections == sections
    with pytest.raises(ConfigError, match="the report has figure own-speed twice"):
        insert_sections(Page("report", (), sections), sections)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MODELS = []\n", "mine.py lists nothing; define at least one of .*FIGURES, TABLES"),
        ("TABLES = [1]\n", "TABLES has 1; expected functions of a study"),
        ("def f(study):\n    return 1\nTABLES = [f]\n", "mine.py: f returned int; expected a Table"),
        ("def f(study):\n    return 1 / 0\nTABLES = [f]\n", "mine.py: f failed: ZeroDivisionError: division"),
    ],
)
def test_plugin_that_fails_is_named_with_its_function(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        build_own_sections([written(tmp_path, text)], STUDY)


def test_plugin_of_an_algorithm_adds_nothing_to_a_report(tmp_path):
    """As where `fedgrid.toml` names it for every command."""
    assert build_own_sections([written(tmp_path, ALGORITHM)], STUDY) == ()


def test_figure_that_fails_is_named_when_it_is_drawn(tmp_path):
    [section] = build_own_sections([written(tmp_path, "def f(study):\n    return 1\nFIGURES = [f]\n")], STUDY)
    with pytest.raises(ConfigError, match=r"mine.py: f returned int; expected a Figure"):
        section.items[0].draw()


def test_plugin_for_reports_alone_is_refused_for_runs(tmp_path):
    path = written(tmp_path, "def f(study):\n    return 1\nFIGURES = [f]\n")
    with pytest.raises(ConfigError, match="mine.py has only FIGURES or TABLES; give it to `fedgrid report"):
        active.add_plugin(path)
