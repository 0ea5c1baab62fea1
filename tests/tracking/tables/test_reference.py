"""Tables 1 and 2 from the authors' partitions: every cell of MNIST and CIFAR10, to all published digits."""

import csv
import io
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest

from fedgrid.tracking.papers.ocfl.tables import build_published_tables
from fedgrid.tracking.scoring.measures import FINAL_ARI
from fedgrid.tracking.scoring.statistics import compare_algorithms
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.clustering import (
    build_exactly_right_table,
    build_published_rounds_table,
    published_clustering,
)
from fedgrid.tracking.tables.formats import to_csv
from fedgrid.tracking.tables.table import FAR_NOTE, NONE, Table
from tests.helpers.reference import OVERLAPS, SIZES, read_labels, read_published, round_twice
from tests.helpers.studies import IDS, make_result, make_run, make_study


@pytest.fixture(scope="module")
def study() -> Study:
    """The archive's 112 runs."""
    found = []
    for row in read_published():
        dataset, overlap, balance, clients = scenario_of(row)
        run = make_run(row["algorithm"], dataset=dataset, split=f"{overlap}-{balance}", clients=clients)
        found.append(make_result(run, read_labels(row), np.repeat([0, 1, 2], SIZES[balance, clients])))
    return make_study(found)


def scenario_of(row: dict[str, str]) -> tuple[str, str, str, int]:
    return row["dataset"].lower(), OVERLAPS[row["overlap"]], row["balance"], int(row["n"])


def lines_of(table: Table) -> dict[str, dict[str, str]]:
    """Algorithm -> heading -> value, from the table's csv file."""
    return {line["algorithm"]: line for line in csv.DictReader(io.StringIO(to_csv(table)))}


def cells_of(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield algorithm, heading and what is printed."""
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            yield row.name, f"{column.group}: {column.name}", cell.text


BLOCKS = [(dataset, clients) for dataset in ("mnist", "cifar10") for clients in (15, 30)]


@pytest.mark.parametrize(("dataset", "clients"), BLOCKS)
def test_table_1_is_the_published_one_to_all_digits_and_as_printed(study, dataset, clients):
    table = published_clustering(study.where(dataset=dataset, clients=clients))
    lines = lines_of(table)
    printed = {(algorithm, heading): text for algorithm, heading, text in cells_of(table)}
    rows = [row for row in read_published() if scenario_of(row)[::3] == (dataset, clients)]
    assert len(rows) * 3 == len(printed) == 84
    for row in rows:
        _, overlap, balance, _ = scenario_of(row)
        values = [row[f"{name}_published"] for name in ("RAND", "AMI", "COM")]
        is_dash = {float(value) for value in values} == {0.0}
        for name, value in zip(("RAND", "AMI", "COM"), values, strict=True):
            heading = f"{overlap} {balance}: {name}"
            assert round_twice(float(lines[IDS[row["algorithm"]]][heading])) == float(value)
            expected = NONE if is_dash else str(Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_UP))
            assert printed[IDS[row["algorithm"]], heading] == expected.replace("-0.00", "0.00")


@pytest.mark.parametrize("dataset", ["mnist", "cifar10"])
def test_table_2_is_the_published_one(study, dataset):
    table = build_published_rounds_table(study.where(dataset=dataset))
    lines = lines_of(table)
    printed = {(algorithm, heading): text for algorithm, heading, text in cells_of(table)}
    rows = [row for row in read_published() if scenario_of(row)[0] == dataset]
    assert len(rows) == len(printed) == 56
    for row in rows:
        _, overlap, balance, clients = scenario_of(row)
        heading, number = f"{clients} clients: {overlap} {balance}", row["round_published"]
        assert float(lines[IDS[row["algorithm"]]][heading]) == float(number)
        assert printed[IDS[row["algorithm"]], heading] == (NONE if number == "1" else number)


def test_exactly_right_partitions_are_as_many_as_counted(study):
    """Counted in the authors' archive: runs whose last partition is the hidden groups."""
    table = build_exactly_right_table(study)
    assert [(row.name, [cell.text for cell in row.cells]) for row in table.rows] == [
        ("mnist", ["0/8", "2/8", "0/8", "8/8", "0/8", "4/8", "8/8"]),
        ("cifar10", ["0/8", "0/8", "0/8", "2/8", "0/8", "0/8", "2/8"]),
        ("total", ["0/16", "2/16", "0/16", "10/16", "0/16", "4/16", "10/16"]),
    ]


def test_beside_the_published_numbers_the_archive_shows_no_difference(study):
    tables = [table for table in build_published_tables(study) if "personalisation" not in table.name]
    assert [table.name for table in tables] == [
        *(f"against-table1-{dataset}-{clients}" for dataset, clients in BLOCKS),
        "against-table2-mnist",
        "against-table2-cifar10",
    ]
    for table in tables:
        assert {cell.tone for row in table.rows for cell in row.cells} == {""}
        assert FAR_NOTE not in table.notes
        for _, _, text in cells_of(table):
            ours, theirs = text.split(" / ")
            assert ours == theirs


def test_algorithms_ranked_by_the_last_partition(study):
    """Average ranks of the archive's ARI_final, by counting who is better; BNC never clusters."""
    scores: dict[tuple[str, ...], dict[str, float]] = {}
    for row in read_published():
        scores.setdefault(tuple(map(str, scenario_of(row))), {})[row["algorithm"]] = float(row["ARI_final"])
    names = [name for name in next(iter(scores.values())) if name != "BNC"]
    ranks = dict.fromkeys(names, 0.0)
    for of_scenario in scores.values():
        for name in names:
            better = sum(of_scenario[other] > of_scenario[name] for other in names)
            alike = sum(of_scenario[other] == of_scenario[name] for other in names)
            ranks[name] += (better + (alike + 1) / 2) / len(scores)
    result = compare_algorithms(study, FINAL_ARI)
    assert result.num_scenarios == len(scores) == 16
    assert dict(zip(result.algorithms, result.ranks, strict=True)) == pytest.approx(
        {IDS[name]: rank for name, rank in ranks.items()}
    )
    assert result.algorithms[0] == "ocfl-hdbscan"
    assert result.friedman_p is not None
    assert result.friedman_p < 1e-8
