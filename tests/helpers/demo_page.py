"""A page with everything that a report can have, of made-up numbers."""

from functools import partial

from matplotlib.figure import Figure

from fedgrid.tracking.report.page import CaptionedFigure, Choice, Page, PageSection
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table

ALGORITHMS = ("fedavg", "sattler", "briggs", "ocfl-kmeans", "ocfl-affinity", "ocfl-meanshift", "ocfl-hdbscan")
SPLITS = (
    "nonoverlapping balanced",
    "nonoverlapping imbalanced",
    "overlapping balanced",
    "overlapping imbalanced",
)
WORST_NAME = "<b>K & \"L\"</b> </script> 'é'"
"""What a careless writer of HTML would trip over."""


def draw_curve(slope: float, width: float = 5.2) -> Figure:
    """Draw one line."""
    figure = Figure(figsize=(width, 2.6))
    axes = figure.subplots()
    axes.plot([1, 2, 3, 4], [0.1, 0.4 * slope, 0.7 * slope, 0.8 * slope])
    axes.set_xlabel("round")
    return figure


def make_plate(name: str, slope: float = 1.0, width: float = 5.2) -> CaptionedFigure:
    """Make a figure of one line."""
    caption = f"A line of slope {slope} by round, once; the band is the standard deviation over splits."
    return CaptionedFigure(name, f"A line: {name}", caption, partial(draw_curve, slope, width))


def make_wide_table(name: str, *, digits: int = 2) -> Table:
    """Make a table like the papers' first: seven algorithms, four splits of three scores."""

    def cell(row: int, column: int) -> Cell:
        value = (37 * row + 23 * column * column) % 100 / 100 + 0.001
        if row < 2 and column % 3 == 0:
            return Cell(NONE)
        if row == 4 and column == 7:
            return Cell()
        notes = ("a",) if (row, column) in {(1, 2), (6, 4)} else ("a", "b") if (row, column) == (6, 5) else ()
        tone = (
            {5: "better", 8: "worse"}.get(column, "")
            if row == 6
            else "partial"
            if row == 3 and column == 1
            else ""
        )
        text = f"{value:.{digits}f}" + (" (2/3)" if tone == "partial" else "")
        return Cell(text, value, bold=row == 5 and column < 4, tone=tone, notes=notes)  # type: ignore[arg-type]

    return Table(
        name,
        f"Table 1. Clustering, {name}",
        "Adjusted Rand index, adjusted mutual information and completeness against the hidden groups; mean "
        "over the first 50 rounds. Best in bold.",
        tuple(Column(score, split) for split in SPLITS for score in ("RAND", "AMI", "COM")),
        tuple(
            Row(algorithm, tuple(cell(row, column) for column in range(12)))
            for row, algorithm in enumerate(ALGORITHMS)
        ),
        corner="algorithm",
        notes={
            "a": "The published number is of another truth: 7/14/9 instead of 10/10/10.",
            "b": "AMI is a copy of ARI in the published table.",
        },
    )


def make_small_table(name: str) -> Table:
    """Make a table of two parts with means and deviations, one of the columns words."""
    rows = [
        ("fedavg", 0.432, 0.012, "ten", "15 clients"),
        (WORST_NAME, 0.95, 0.2, "nine & more", "15 clients"),
        ("ocfl-hdbscan", 0.7, 0.03, "", "15 clients"),
        ("fedavg", 0.5, 0.1, "two", "30 clients"),
        ("ocfl-hdbscan", 12.25, 0.04, "ten", "30 clients"),
    ]
    return Table(
        name,
        f"Personalisation, {name}",
        "Mean over seeds.",
        (Column("PF1"), Column("remark")),
        tuple(
            Row(label, (Cell(f"{value:.2f} ± {spread:.2f}", value, spread, 3), Cell(remark)), part)
            for label, value, spread, remark, part in rows
        ),
    )


def make_section(name: str) -> PageSection:
    """Make a section of a data set."""
    return PageSection(
        name,
        name.upper(),
        "Fifteen and thirty clients hold images of three hidden groups.\n\nA second paragraph says < & >.",
        (
            Choice(
                (
                    ("as published", make_wide_table(f"table1-{name}-published")),
                    ("all rounds", make_wide_table(f"table1-{name}", digits=3)),
                )
            ),
        ),
        (
            PageSection(
                f"{name}-figures",
                "Figures",
                items=(
                    make_plate(f"temperature-{name}", 1.0, 4.2),
                    make_plate(f"ari-{name}", 1.2, 4.2),
                    Choice(
                        (
                            ("normalised", make_plate(f"raw-{name}", 1.5, 7.0)),
                            ("raw", make_plate(f"norm-{name}", 0.4)),
                        )
                    ),
                ),
            ),
            PageSection(
                f"{name}-personalisation", "Personalisation", items=(make_small_table(f"personal-{name}"),)
            ),
        ),
    )


def make_demo_page(*datasets: str) -> Page:
    """Make the page, with a section a data set."""
    facts = (("grid", "paper"), ("runs", "278 of 280"), ("rounds", "18,480"), ("commit", "19c274f"))
    summary = PageSection(
        "summary", "Summary", "What came out.", (make_small_table("summary"), make_plate("ranks"))
    )
    return Page("Clustering <federated> clients: 'paper'", facts, (summary, *map(make_section, datasets)))
