"""Draw figures of a grid for a paper: `python docs/figures.py paper-digits --storage runs`. Copy it."""

from argparse import ArgumentParser
from pathlib import Path

from fedgrid.grids.results.study import load
from fedgrid.tracking import figures


def main() -> None:
    """Draw three figures of the first data set of a grid into a folder."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("grid")
    parser.add_argument("--storage", default="runs")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    study = load(options.grid, options.storage)
    dataset, clients = study.blocks[0]
    block = study.where(dataset=dataset, clients=clients)

    figures.save(figures.segments(study.where(dataset=dataset)), options.out / "segments.pdf")
    figures.save(figures.cluster_maps(block.where(split=block.splits[0])), options.out / "clusters.svg")

    # A figure is an ordinary one of matplotlib: everything in it can be changed before it is saved.
    gap = figures.per_round(block, "gap")
    gap.set_size_inches(7, 2.8)
    for axes, split in zip(gap.axes, block.splits, strict=True):
        axes.set_title(", ".join(split), fontsize=6.5, style="italic")
        axes.set_ylim(top=0.8)
    figures.save(gap, options.out / "learning-gap.pdf")


if __name__ == "__main__":
    main()
