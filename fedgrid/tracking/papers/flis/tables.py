"""Our numbers beside Tables 1 to 3 of FLIS (Morafah et al. 2022), in its own definition of accuracy.

FLIS's accuracy is of each client's last local model on all official test images of its labels, mean over the
clients; of the global model where there is only one, which Per-FedAvg's clients adapt first. Compared are
runs in its setting: 100 clients, a tenth of them asked, its splits, tested on official images.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fedgrid.tracking.papers.flis import numbers
from fedgrid.tracking.papers.shared.cells import beside
from fedgrid.tracking.papers.shared.paper import Run, Study
from fedgrid.tracking.scoring.cost import Cost, cost
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.tables.cells import explained, over_seeds
from fedgrid.tracking.tables.table import (
    ABSENT,
    FAR,
    NONE,
    Cell,
    Column,
    Row,
    Table,
    lettered,
    median,
)

SETTING = {"clients": "100", "participation": "0.1", "split.tested_on": "official"}
SHARES = {"label-skew": "split.labels_share", "dirichlet": "split.alpha"}
TARGETS = {"fmnist": 0.80, "cifar10": 0.70, "cifar100": 0.50, "svhn": 0.75}
"""The accuracies of Table 3."""
ROUNDS_OF, MBIT_OF = "label-skew 0.2", "label-skew 0.3"
"""Table 3 has the rounds of one skew and the traffic of the other."""
FAR_POINTS = 5.0
GLOBAL = ("BNC", "FedProx", "FedNova", "SCAFFOLD")
SERVED = (*GLOBAL, "Per-FedAvg")
"""Algorithms whose accuracy is of the model that a client is served, not of what it has trained last."""
ONE_DECIMAL = ("fmnist", "cifar10", "svhn")

NOTES: Mapping[str, str] = {
    FAR: "The two differ by more than five points.",
    "other setting": "Not comparable: printed with one decimal instead of two, and equal, as far as is "
    "known, to another benchmark's table: 10 clients that all take part, 50 rounds, batch 64, momentum "
    "0.9, and the whole test set.",
    "collapse": "Published is a collapse to one class, which a right SCAFFOLD does not show.",
    "on test data": "The published clusters are chosen by accuracy on the client's test images, and the "
    "server's reference images are test images of the clients. Here neither is, unless the setting says "
    "so.",
    "hc": "The release of FLIS-HC does no hierarchical clustering: its only rule joins clients that agree "
    "on 96 % of the reference images.",
    "budget": "The paper does not say how many local epochs SOLO has in all; here it trains when it would "
    "be asked.",
    "mu": "The paper does not say its mu.",
    "epsilons": "The paper does not say its thresholds; its numbers are those of a run that never splits.",
}
OF_ROWS = {
    "SOLO": ("budget",),
    "FedProx": ("mu",),
    "SCL": ("epsilons",),
    "FLIS-DC": ("on test data",),
    "FLIS-HC": ("on test data", "hc"),
}


def curve_of(run: Run) -> str:
    """Return the curve that is a run's accuracy: of the last local models, or of the one global model."""
    return "personalised_accuracy" if run.published in SERVED else "last_local_accuracy"


def accuracy(result: Run) -> float:
    """Return the paper's accuracy of a run, of its last round."""
    return result.last(curve_of(result))


PERCENT = Measure("accuracy, %", lambda result: 100 * accuracy(result), digits=2)


def against_flis(study: Study) -> tuple[Table, ...]:
    """Return a table for each split of FLIS that the study has, and one of the cost of its targets."""
    known = study.only(
        run for run in study.runs if (scenario_of(run), run.dataset, str(run.published)) in numbers.accuracy()
    )
    scenarios = dict.fromkeys(scenario_of(run) for run in known.runs)
    has_cost = any((run.dataset, str(run.published)) in numbers.cost() for run in known.runs)
    return (
        *(_accuracy(_of(known, scenario), scenario) for scenario in scenarios),
        *([_cost(known)] if has_cost and {ROUNDS_OF, MBIT_OF} & {*scenarios} else []),
    )


def _of(study: Study, scenario: str) -> Study:
    return study.only(run for run in study.runs if scenario_of(run) == scenario)


def scenario_of(run: Run) -> str:
    """Return FLIS's name of a run's split, `label-skew 0.2`; empty if it is in another setting."""
    share = SHARES.get(run.split)
    if share is None or any(run.keys.get(key) != value for key, value in SETTING.items()):
        return ""
    return f"{run.split} {run.keys.get(share)}"


def _accuracy(study: Study, scenario: str) -> Table:
    rows = []
    for algorithm in study.algorithms:
        part = study.of(algorithm=algorithm)
        run = part.runs[0]
        cells = tuple(_cell(part.of(dataset=dataset), scenario, dataset, run) for dataset in study.datasets)
        rows.append(Row(algorithm, cells, notes=OF_ROWS.get(str(run.published), ())))
    table = Table(
        f"against-flis-{scenario.replace(' ', '-')}",
        f"FLIS, Tables 1 and 2: {scenario}",
        "Ours / published: accuracy in percent of each client's last local model (BNC, FedProx, FedNova, "
        "SCAFFOLD: of the global model, Per-FedAvg: of the adapted one) on the test images of its labels, "
        "mean over clients, ± standard deviation over runs. How many "
        "rounds and repetitions the published numbers are of is not stated.",
        tuple(map(Column, study.datasets)),
        tuple(rows),
        corner="algorithm",
        notes=NOTES,
    )
    return lettered(explained(table, study))


def _cell(study: Study, scenario: str, dataset: str, run: Run) -> Cell:
    known = numbers.accuracy().get((scenario, dataset, str(run.published)))
    cell = over_seeds(study, PERCENT)
    if known is None:
        return cell
    text = f"{known.text} ± {known.deviation}" if known.deviation else known.text
    notes = []
    if run.published in GLOBAL and scenario.startswith("label-skew") and dataset in ONE_DECIMAL:
        notes.append("other setting")
    if run.published == "SCAFFOLD" and known.mean == 10.0:
        notes.append("collapse")
    found = beside(cell, known.mean, text, far=FAR_POINTS)
    return replace(found, notes=(*found.notes, *notes))


def _cost(study: Study) -> Table:
    """Return the rounds to the targets of Table 3, and the megabits per client, medians over seeds."""
    parts: Mapping[str, tuple[str, int, Callable[[Cost], float]]] = {
        "rounds, 20 % skew": (ROUNDS_OF, 0, lambda each: each.rounds),
        "Mbit a client, 30 % skew": (MBIT_OF, 1, lambda each: each.sent("mbit-per-client")),
    }
    columns = [(dataset, heading) for dataset in study.datasets if dataset in TARGETS for heading in parts]
    rows = []
    for algorithm in study.algorithms:
        part = study.of(algorithm=algorithm)
        known = [numbers.cost().get((dataset, str(part.runs[0].published))) for dataset, _ in columns]
        cells = []
        for (dataset, heading), printed in zip(columns, known, strict=True):
            scenario, place, of = parts[heading]
            own = _of(part.of(dataset=dataset), scenario)
            spent = [cost(result, curve_of(result), TARGETS[dataset]) for result in own.finished]
            found = median([of(each) for each in spent], 2 * place, printed[place] if printed else None)
            cells.append(found if own.runs else Cell(ABSENT))
        rows.append(Row(algorithm, tuple(cells)))
    table = Table(
        "against-flis-cost",
        "FLIS, Table 3: cost of a target accuracy",
        "Ours / published: rounds until the accuracy reaches 80 % (FMNIST), 70 % (CIFAR-10), 50 % "
        "(CIFAR-100) or 75 % (SVHN), and megabits sent per client, medians over seeds. The published "
        "rounds are of 20 % label skew, the published traffic of 30 %, which counts 62,006 parameters for "
        f"every LeNet, also FMNIST's 44,426. {NONE}: not reached, or not stated.",
        tuple(Column(heading, dataset) for dataset, heading in columns),
        tuple(rows),
        corner="algorithm",
    )
    return explained(table, study)
