"""Rounds of Sattler runs before any split: plain FedOpt, with the norms that the test of a split sees.

Only these algorithms look at the norm of a mean update, so only their runs have it in the records.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from fedgrid.engine.epsilons import Proposal
from fedgrid.engine.training.settings import Training

SAME = ("optimizer", "learning_rate", "batch_size", "momentum", "weight_decay")
"""Of the training: what makes steps of one size. Epochs and rounds are a federation's own."""
ALGORITHM = "sattler"


@dataclass(frozen=True)
class PlainRounds:
    """The norms of a run's first rounds; the last of them is that of the first split, if there is one."""

    run: str
    mean_norm_R: tuple[float, ...]
    """Of the mean update."""
    max_norm_R: tuple[float, ...]
    """Largest of a client's update."""

    def told(self, proposal: Proposal) -> dict[str, object]:
        """Return what is to be said of them, by name."""
        return {
            "run": self.run,
            "rounds": len(self.mean_norm_R),
            "largest_mean_norm": max(self.mean_norm_R),
            "smallest_mean_norm": min(self.mean_norm_R),
            "epsilon_2_below": proposal.reach(self.mean_norm_R, self.max_norm_R),
            "first_split": proposal.first_split(self.mean_norm_R, self.max_norm_R),
        }


def plain_rounds(root: Path, dataset: str, model: str, training: Training) -> list[PlainRounds]:
    """Return those of the runs under a storage's `root` that train the same model in the same steps."""
    found = []
    for records in sorted(root.glob(f"*-{ALGORITHM}-*/rounds.parquet")):
        config = json.loads((records.parent / "config.json").read_text())
        alike = (config["dataset"], config["model"]) == (dataset, model) and all(
            config["training"][key] == getattr(training, key) for key in SAME
        )
        if alike and config["algorithm"]["similarity_over"] == "parameters":
            rows = pq.read_table(records, columns=["clusters", "mean_norm", "max_norm"]).to_pylist()
            split = next((index for index, row in enumerate(rows) if row["clusters"] > 1), len(rows))
            before = rows[: split + 1]
            # What was imported from an archive has no norms.
            if before and all(row["mean_norm"] is not None for row in before):
                means, largest = (tuple(row[name] for row in before) for name in ("mean_norm", "max_norm"))
                found.append(PlainRounds(records.parent.name, means, largest))
    return found
