"""The end of a run whose validation score no longer improves (`training.stop_after`).

The score of a tested round is the mean, over the clients that tested it, of the column
`personalised_accuracy` of their records, or of minus `personalised_loss` where numbers are predicted. The
best one so far is part of the run's state, so that a resumed run ends where an uninterrupted one does.
"""

from math import fsum, isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.record_names import SERVED_TESTS, TARGET
from fedgrid.engine.federation.training.confusion import scores

if TYPE_CHECKING:
    from fedgrid.engine.federation.round.federation import Federation
    from fedgrid.engine.federation.round.record import ModelTests

Best = NDArray[np.float64]
"""The round with the best score so far, from 1, and that score; shape (2,)."""


def best_after(
    federation: "Federation", before: Best | None, number: int, tests: "ModelTests"
) -> Best | None:
    """Return the best score after round `number`; ties go to the earlier round, None: there is none yet."""
    if federation.stop_after is None or (score := _score(federation, tests)) is None:
        return before
    return np.array([number, score]) if before is None or score > before[1] else before


def _score(federation: "Federation", tests: "ModelTests") -> float | None:
    own, _ = SERVED_TESTS
    name, sign = ("loss", -1) if TARGET in federation.columns else ("accuracy", 1)
    of_clients = scores([by_test[own] for by_test in tests.values() if own in by_test])
    values = [sign * one[name] for one in of_clients if isfinite(one[name])]
    return fsum(values) / len(values) if values else None
