"""The section of docs/arena.md that is written from runs."""

import pandas as pd

from benchmarks.arena import section


def runs():
    """Two algorithms and a reference; the first finds the groups and leaves equal clients together."""
    rows = []
    for name, right, clusters, accuracies in (
        ("A", 1, 1, (0.9, 0.8, 0.7)),
        ("B", 0, 3, (0.6, 0.5, 0.95)),
        ("SOLO", 0, 20, (0.99, 0.1, 0.1)),
    ):
        for kind, accuracy in zip(("rotated", "iid", "dirichlet"), accuracies, strict=True):
            found = {"exactly_right": bool(right), "clusters": clusters, "ari": float(right)}
            where = {"algorithm": name, "split": kind, "seed": 0}
            scores = {"personalised_accuracy": accuracy, "generalised_accuracy": 0.5, "clustering_round": 2}
            rows.append({**where, **found, **scores, "megabytes": 1.0, "reference": name == "SOLO"})
    return pd.DataFrame(rows)


def test_section_of_the_arena_is_counted_from_its_runs():
    """A is better in two of three federations: mean ranks 4/3 and 5/3; the reference is never the best."""
    text = section(runs(), "personalised_accuracy=95%")
    assert "3 federations (seeds 0), 9 runs" in text
    assert "| A | 1/1 | 1.00 | 2 | 0/1 | 0.800 | 1.3 | 0.500 | 1 |" in text
    assert "| B | **" not in text
    assert "| A | **0.900** | **0.800** | 0.700 |" in text
    assert "| SOLO | 0.990 | 0.100 | 0.100 |" in text
    assert "- Exactly right wherever there are groups: A. Most often right: A (1.00), B (0.00)." in text
    assert "are left together by: A." in text
    assert "Best mean ranks: A (1.3), B (1.7)." in text
    assert "by mean accuracy: B (0.95), A (0.70)." in text
