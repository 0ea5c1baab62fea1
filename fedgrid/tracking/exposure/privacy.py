"""What privacy costs: scores beside epsilon."""

from math import inf, isinf

import numpy as np
from numpy.typing import NDArray

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import setting_words
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import explained, over_scenarios
from fedgrid.tracking.tables.table import ABSENT, NONE, Cell, Column, Row, Table, bold_columns

BUDGET, NO_BUDGET = "privacy.epsilon", "null"
SHOWN = (measures.FINAL_ARI, measures.PA_LAST)


def last_sent(epsilon_R: NDArray[np.float64]) -> int:
    """Return the last round, from 1, that has cost anything, 0 if none has.

    Args:
        epsilon_R: the largest epsilon of any client after each of R rounds.
    """
    if np.isinf(epsilon_R[-1]):  # Nothing ends at a budget.
        return len(epsilon_R)
    return int(np.flatnonzero(np.diff(epsilon_R, prepend=0.0)).max(initial=-1)) + 1


def over_epsilon(study: Study) -> Table:
    """Return, for each combination of the further axes' values, a row for each algorithm."""
    has_budgets = any(run.keys.get(BUDGET, NO_BUDGET) != NO_BUDGET for run in study.runs)
    deltas = ", ".join(dict.fromkeys(run.keys.get("privacy.delta", "") for run in study.runs))
    rows = [
        row
        for setting in study.settings
        for row in bold_columns(
            _rows(study, setting, has_budgets=has_budgets),
            [None, *([None] if has_budgets else []), *(measure.highest for measure in SHOWN)],
        )
    ]
    table = Table(
        "privacy",
        "Scores by epsilon",
        f"epsilon: of (epsilon, delta)-differential privacy of a client, delta {deltas}, after the last "
        f"round; the largest of any client and run. ∞: clients tell something that no noise covers; {NONE}: "
        "no noise. final ARI: adjusted Rand index of the last partition; last PA: personalised accuracy of "
        f"the last round. {'Sends until: the last round that any client could pay for. ' * has_budgets}"
        "Best of each setting in bold.",
        (
            Column("epsilon"),
            *([Column("sends until")] if has_budgets else []),
            *(Column(measure.name) for measure in SHOWN),
        ),
        tuple(rows),
        corner="algorithm",
        part="setting",
    )
    return explained(table, study)


def _rows(study: Study, setting: tuple[tuple[str, str], ...], *, has_budgets: bool) -> list[Row]:
    part = study.of(setting=setting)
    title = ", ".join(setting_words(setting)) or "all runs"
    return [
        Row(
            name,
            (
                _epsilon(own),
                *([_last_sent(own)] if has_budgets else []),
                *(over_scenarios(own, measure) for measure in SHOWN),
            ),
            title,
            is_reference=name in part.references,
        )
        for name in part.algorithms
        for own in [part.of(algorithm=name)]
    ]


def _last_sent(study: Study) -> Cell:
    """Return the cell of the last round in which a client of any run has sent something at a cost."""
    epsilons = [np.asarray(result.curves["epsilon"]) for result in study.finished]
    found = [last_sent(epsilon_R) for epsilon_R in epsilons if not np.isnan(epsilon_R).any()]
    return Cell(str(max(found)), max(found), count=len(found)) if found else Cell(NONE)


def _epsilon(study: Study) -> Cell:
    """Return the cell of the largest epsilon of any run."""
    if not study.finished:
        return Cell() if study.runs else Cell(ABSENT)
    found = [value for result in study.finished if not np.isnan(value := measures.EPSILON.of(result))]
    if not found:
        return Cell(NONE, inf)
    largest = max(found)
    return Cell("∞" if isinf(largest) else f"{largest:.3g}", largest, count=len(found))
