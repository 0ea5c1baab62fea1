"""The page of a report's figures and tables: those of small studies with every kind of number, undrawn."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product

from docs.reference.markdown import code, page, table
from fedgrid.tracking.report.contents import CONVENTIONS, build_report_page
from fedgrid.tracking.report.page import CaptionedFigure, Page
from fedgrid.tracking.scoring.measures import WORSE
from fedgrid.tracking.scoring.run import AxisValue
from fedgrid.tracking.tables.table import Table
from tests.helpers.studies import ONE, WHOLE, make_result, make_run, make_study

CURVES = (
    *("ari", "bytes", "temperature", "silhouette", "global_accuracy", "epsilon", "message_bytes"),
    *("personalised_accuracy", "personalised_f1", "generalised_accuracy", "generalised_f1"),
    *("learning_gap", "learning_gap_loss", "published_learning_gap", "personalised_auc"),
)
ALGORITHMS = {"ALGORITHM": (WHOLE, (0.2, 0.3)), "ANOTHER": (ONE, (0.1, 0.2))}
"""Name -> labels and the values of all curves."""
AXES: tuple[tuple[AxisValue, ...], ...] = tuple(
    (("KEY", one), ("KEY_2", other)) for one, other in product("12", repeat=2)
)
NAMES = (
    (r"-(15|30|45)(?=-|$)", "-CLIENTS"),
    (r"-(final|mean|last)-(?i:ari|personalised-f1|generalised-f1)$", "-SCORE"),
    (r"KEY_2", "KEY"),
)
"""What varies in the name of a file -> the word that stands for it."""


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    reports = [_report(("DATASET", "OTHER"), (15, 30, 45), ((),)), _report(("DATASET",), (15,), AXES)]
    plates = [plate for report in reports for plate in report.list_figures()]
    tables = [item for report in reports for item in report.list_tables()]
    return {
        "reference/report.md": page(
            "# Figures and tables of a report",
            "Files of `fedgrid report` ([how to](../reports.md)). A figure or a table that no run has "
            "numbers for is left out. Of figures that are alternatives on the page only the first is drawn, "
            "all with `--all-figures`. In a grid with further axes, those of a data set have the values of "
            "the axes in their names too.",
            "## Figures",
            table(("`figures/`", "title", "what it shows"), _rows(plates)),
            "## Tables",
            "The caption of a table says what its columns are. With `--against published` there are the "
            "papers' own tables beside ours too, and `claims`.",
            table(("`tables/`", "title", "columns"), _rows(tables)),
            "## Conventions",
            CONVENTIONS,
        )
    }


def _report(datasets: Iterable[str], clients: Iterable[int], axes: Iterable[tuple[AxisValue, ...]]) -> Page:
    results = []
    for dataset, number, algorithm, values in product(datasets, clients, ALGORITHMS, axes):
        run = make_run(algorithm, dataset=dataset, clients=number, split="SPLIT")
        labels, curve = ALGORITHMS[algorithm]
        run = replace(run, run_id=f"{run.run_id}{values}", axes=values)
        result = make_result(run, labels, curves=dict.fromkeys(CURVES, curve))
        results.append(replace(result, scores={**result.scores, **dict.fromkeys(WORSE, 0.5)}))
    return build_report_page(make_study(results, name="GRID"))


def _rows(items: Iterable[CaptionedFigure | Table]) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each kind of file."""
    listed = set()
    for item in items:
        name = item.name
        for pattern, word in NAMES:
            name = re.sub(pattern, word, name)
        if name in listed or "OTHER" in name or re.search("-KEY-[12]", name):
            continue
        listed.add(name)
        title = re.split(": |, KEY", item.title)[0]
        yield code(name), title.replace("KEY_2", "KEY"), _in_general(item)


def _in_general(item: CaptionedFigure | Table) -> str:
    """Return a figure's caption or a table's columns, without what is so of the small studies alone."""
    if isinstance(item, CaptionedFigure):
        text = re.sub(r"\bthe \d+ scenarios|Two algorithms: .*", _words, item.caption)
        return text.replace("KEY_2", "KEY")
    names = (f"{column.group} {column.name}".strip() for column in item.columns)
    return ", ".join(dict.fromkeys(re.sub(r"\b\d+ clients|\b[12]$", _words, name) for name in names))


def _words(match: re.Match[str]) -> str:
    kinds = {"scenarios": "the scenarios", "clients": "CLIENTS", "1": "VALUE", "2": "VALUE"}
    return kinds.get(match[0].split()[-1], "")
