"""Rounds of Sattler runs before any split: plain FedOpt, with the norms that the split criterion uses.

Only these algorithms use the norm of a mean update, so only their runs record it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from fedgrid.engine.epsilons import Proposal
from fedgrid.engine.training.settings import Training
from fedgrid.tracking.records import table

SAME = ("optimizer", "learning_rate", "batch_size", "momentum", "weight_decay")
"""Keys of the training that set the size of a step. Epochs and rounds may differ."""
ALGORITHM = "sattler"


@dataclass(frozen=True)
class PlainRounds:
    """The norms of a run's first rounds, up to the first split, if there is one.

    Shapes: R rounds.
    """

    run: str
    mean_norm_R: tuple[float, ...]
    """Norm of the mean update."""
    max_norm_R: tuple[float, ...]
    """Largest norm of a client's update."""

    def as_dict(self, proposal: Proposal) -> dict[str, object]:
        """Return the row of the table about these rounds, by name."""
        return {
            "run": self.run,
            "rounds": len(self.mean_norm_R),
            "largest_mean_norm": max(self.mean_norm_R),
            "smallest_mean_norm": min(self.mean_norm_R),
            "epsilon_2_below": proposal.reach(self.mean_norm_R, self.max_norm_R),
            "first_split": proposal.first_split(self.mean_norm_R, self.max_norm_R),
        }


def plain_rounds(root: Path, dataset: str, model: str, training: Training) -> list[PlainRounds]:
    """Return the rounds of the runs under `root` that train the same model with the same size of steps."""
    found = []
    for records in sorted(root.glob(f"*-{ALGORITHM}-*/rounds.parquet")):
        config = json.loads((records.parent / "config.json").read_text())
        alike = (config["dataset"], config["model"]) == (dataset, model) and all(
            config["training"][key] == getattr(training, key) for key in SAME
        )
        if alike and config["algorithm"]["similarity_over"] == "parameters":
            rows = table(records.parent, "rounds", columns=("clusters", "mean_norm", "max_norm")).to_pylist()
            split = next((index for index, row in enumerate(rows) if row["clusters"] > 1), len(rows))
            before = rows[: split + 1]
            # Runs imported from an archive have no norms.
            if before and all(row["mean_norm"] is not None for row in before):
                means, largest = (tuple(row[name] for row in before) for name in ("mean_norm", "max_norm"))
                found.append(PlainRounds(records.parent.name, means, largest))
    return found
