"""Known reasons why our numbers differ from the published ones, and where each applies.

Each first describes the published runs, which holds for runs of the authors' archive too, and then the
difference in runs computed here.

Source: differences between the authors' archive and code and the papers (docs/as-published.md).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.tables.table import FAR_NOTE, Cell

CNN = ("mnist", "fmnist")
RESNET = ("cifar10", "pathmnist", "bloodmnist")
OCFL = ("OCFL-KM", "OCFL-AFF", "OCFL-MS", "OCFL-HDB")

FAR_SCORE = (
    "The two differ by more than 0.1: more than clustering five rounds earlier or later, of 50, explains."
)
FAR_MEAN = "The two differ by more than 0.1, more than runs of the same algorithm differ by chance."
FAR_ROUND = "The two differ by more than five rounds."


@dataclass(frozen=True)
class Reason:
    """A footnote and the conditions under which it applies; an empty field is no condition."""

    text: str
    """Sentence about the published runs."""
    ours: str = ""
    """Sentence about runs computed here; empty if there is nothing to add."""
    datasets: Collection[str] = ()
    algorithms: Collection[str] = ()
    """Rows of the published tables."""
    plain: bool = False
    """Whether it does not apply to runs `as published` that are computed here: they share the mistake."""
    measures: Collection[str] = ()
    """Headings of columns."""
    scenario: tuple[str, int, str] | None = None

    def applies_to_dataset(self, dataset: str) -> bool:
        """Check whether the reason applies to a data set."""
        return not self.datasets or dataset in self.datasets

    def applies_to_run(self, run: Run) -> bool:
        """Check whether the reason applies to the algorithm and data set of a run."""
        # A run as published needs no excuse for a mistake that it shares. The archive's runs are the
        # published ones, which the reason is about.
        shares_the_mistake = run.is_as_published and not run.is_archived
        return (
            self.applies_to_dataset(run.dataset)
            and (not self.algorithms or run.published in self.algorithms)
            and not (self.plain and shares_the_mistake)
        )

    def format_text(self, *, archived: bool) -> str:
        """Format the footnote for a table of runs of the archive, or of runs computed here."""
        return self.text if archived or not self.ours else f"{self.text} {self.ours}"


TABLE_REASONS = {
    "cnn": Reason("The authors' network for these images is not published.", "The one here is similar.", CNN),
    "runs": Reason(
        "Each published number is of one run from an unseeded initial model; the round in which OCFL "
        "clusters differs by one or two between runs."
    ),
    "noise": Reason(
        "BNC and SCL are the same algorithm on this network: their published last PF1 differ with a standard "
        "deviation of 0.027, which is due to chance.",
        datasets=RESNET,
    ),
    "first-50": Reason(
        "Both are means over the first 50 rounds, though the runs are longer.", datasets=RESNET
    ),
}
"""Reasons for whole tables: sentences of their captions."""

ROW_REASONS = {
    "affinity": Reason(
        "The published runs gave distances to an algorithm that takes similarities, so that hidden groups "
        "exchanged members.",
        "The plain OCFL-AFF gives similarities.",
        algorithms=("OCFL-AFF",),
        plain=True,
    ),
    "briggs-cnn": Reason(
        "The published runs used similarities instead of distances, with a threshold of 0.05: all "
        "clients merged (12 of 16 runs) or the hidden groups were mixed.",
        "The plain BCL uses distances.",
        CNN,
        ("BCL",),
        plain=True,
    ),
    "briggs-resnet": Reason(
        "The published runs used similarities instead of distances, with a threshold of 0.05: every "
        "client was alone from round 21 on.",
        "The plain BCL uses distances.",
        RESNET,
        ("BCL",),
        plain=True,
    ),
    "sattler-cnn": Reason(
        "The published runs first split in round 22: their cooldown was 20 rounds, not the 30 and 40 of "
        "Table 4, and both epsilons were 0.35.",
        datasets=CNN,
        algorithms=("SCL",),
        plain=True,
    ),
    "sattler-resnet": Reason(
        "The published runs never split: the norm of their updates includes BatchNorm's counters, which "
        "alone exceed epsilon 1. There, SCL equals BNC.",
        datasets=RESNET,
        algorithms=("SCL",),
        plain=True,
    ),
    "noise-clients": Reason(
        "In the published runs the clients that HDBSCAN labels as noise share a cluster of their own.",
        "In the plain OCFL-HDB each joins the nearest cluster.",
        algorithms=("OCFL-HDB",),
        plain=True,
    ),
    "buffers": Reason(
        "The published distances include BatchNorm's statistics and counters, and the counters outweigh all "
        "else.",
        "Those of the plain algorithms are over the weights, unless `similarity_over` is `state`.",
        RESNET,
        OCFL,
        plain=True,
    ),
    "learning-rate": Reason(
        "With learning rates of 1e-7 (PathMNIST) and 1e-6 (BloodMNIST) the weights hardly change: the "
        "published runs clustered BatchNorm's statistics.",
        datasets=("pathmnist", "bloodmnist"),
        algorithms=OCFL,
        plain=True,
    ),
}

COLUMN_REASONS = {
    "homogeneity": Reason(
        "Homogeneity, though called completeness: the two arguments were exchanged. In this table both "
        "numbers are computed so.",
        measures=("COM",),
    ),
    "union": Reason(
        "F1 over the union of true and predicted classes: one prediction outside of a client's classes adds "
        "a class with a score of 0.",
        measures=("PF1", "GF1"),
    ),
    "local": Reason(
        "Score of the locally trained models before aggregation, in round 1 of the untrained one, not of the "
        "clusters' models.",
        measures=("GF1", "GA", "gap"),
    ),
}

CELL_REASONS = {
    "copied": Reason(
        "The published AMI of OCFL-HDB is a copy of its RAND; in this table both numbers are.",
        algorithms=("OCFL-HDB",),
        measures=("AMI",),
    ),
    "misscored": Reason(
        "The groups of this scenario were 10/10/10 clients, but it was scored against 7/14/9. Against the "
        "right groups the published OCFL-KM and OCFL-MS have a RAND of 0.88, OCFL-HDB 0.54, OCFL-AFF 0.39.",
        algorithms=OCFL,
        measures=("RAND", "AMI", "COM"),
        scenario=("bloodmnist", 30, "overlapping-imbalanced"),
    ),
}


def format_notes(far: str, *, archived: bool) -> Mapping[str, str]:
    """Format the notes of a table by key; `far` is the text of `FAR`."""
    notes = {**ROW_REASONS, **COLUMN_REASONS, **CELL_REASONS}
    return {FAR_NOTE: far, **{key: reason.format_text(archived=archived) for key, reason in notes.items()}}


def format_sentences(dataset: str, *keys: str, archived: bool) -> Iterator[str]:
    """Yield the texts of those of `TABLE_REASONS` that apply to a data set."""
    return (
        TABLE_REASONS[key].format_text(archived=archived)
        for key in keys
        if TABLE_REASONS[key].applies_to_dataset(dataset)
    )


def find_row_notes(run: Run) -> tuple[str, ...]:
    """Find the notes that apply to the algorithm and data set of a run."""
    return tuple(key for key, reason in ROW_REASONS.items() if reason.applies_to_run(run))


def find_column_notes(measure: str) -> tuple[str, ...]:
    """Find the notes of a measure."""
    return tuple(key for key, reason in COLUMN_REASONS.items() if measure in reason.measures)


def add_cell_notes(cell: Cell, run: Run, measure: str) -> Cell:
    """Add the notes of its scenario, algorithm and measure to a cell."""
    notes = tuple(
        key
        for key, reason in CELL_REASONS.items()
        # A reason without a scenario applies in all of them.
        if reason.applies_to_run(run)
        and measure in reason.measures
        and reason.scenario in (None, run.scenario)
    )
    return replace(cell, notes=cell.notes + notes)
