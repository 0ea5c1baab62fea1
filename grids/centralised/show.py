"""The output of `fedgrid centralised`: epochs, proposal, and how it relates to rounds of a federation."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from rich.console import Console
from rich.table import Table

from fedgrid.engine.data.dataset import Dataset
from fedgrid.engine.epsilons import EPSILON_2_FACTOR, SETTLED, Proposal
from fedgrid.grids.centralised.folder import PROPOSAL, RECORDS, CentralisedFolder, set_options
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.tables import titled_table

EPOCHS_SHOWN = 15
COLUMNS = {
    "epoch": ("epoch", "d"),
    "loss": ("loss", ".4f"),
    "accuracy": ("accuracy", ".3f"),
    "server_accuracy": ("server\naccuracy", ".3f"),
    "server_f1": ("server\nF1", ".3f"),
    "update_l2": ("update\nL2", ".4g"),
    "update_l2_state": ("update L2\nof state", ".4g"),
    "weights_l1_change": ("weights' L1\nchange", ".4g"),
}
LEGEND = (
    "loss, accuracy: on the pool, as the model changes; server: on its test set. update L2: Euclidean norm\n"
    "of an epoch's update over the parameters, as Sattler's test takes it; weights' L1 change: what the\n"
    "published epsilons were derived from, and not comparable with that test."
)


def show(
    folder: CentralisedFolder,
    proposal: Proposal,
    dataset: Dataset,
    console: Console,
) -> None:
    """Show a finished training; `rounds` are from `PlainRounds.as_dict`, one for each run."""
    rows = folder.rows
    step = max(1, ceil((len(rows) - 1) / (EPOCHS_SHOWN - 1)))
    title = f"{folder.config.name}: {len(rows)} epochs on {dataset.pool_size:,} images"
    columns = dict(COLUMNS)
    if folder.column("update_l2") == folder.column("update_l2_state"):
        del columns["update_l2_state"]
    console.print(table_of(title, columns, [*rows[:-1:step], rows[-1]], console.width))
    print_plain(console, f"{LEGEND}\n\n{_proposed(proposal)}")
    print_plain(console, f"\nWritten to {folder.path} ({RECORDS}, figures/; `fedgrid run` takes {PROPOSAL})")


def _proposed(proposal: Proposal) -> str:
    """Return the proposal, its derivation, and the options that set it."""
    low, high = proposal.epsilon_2_range
    settled = "" if proposal.is_settled else ": the last one, so more --epochs may change it"
    return (
        "Proposed for sattler, by rules of thumb, to start a search from:\n"
        f"  epsilon_1 = {proposal.epsilon_1:g}: a tenth of the largest update L2, "
        f"{proposal.largest_norm:.4g} in epoch {proposal.largest_norm_epoch}\n"
        f"  epsilon_2 = {proposal.epsilon_2:g}: {EPSILON_2_FACTOR} x epsilon_1; by the rule {low:g} to "
        f"{high:g}\n"
        f"  cooldown = {proposal.cooldown}: the epoch after which the loss falls by at most {SETTLED:.0%} of "
        f"its whole decrease{settled}\n"
        f"  {' '.join(set_options(proposal))}"
    )


def table_of(
    title: str, columns: Mapping[str, tuple[str, str]], rows: Sequence[Mapping[str, Any]], width: int
) -> Table:
    """Return a table of `rows`; `columns` are key -> heading and format. Without a value a cell is a dash."""
    table = titled_table(title, width)
    for heading, kind in columns.values():
        table.add_column(heading, justify="left" if kind == "s" else "right")
    for row in rows:
        table.add_row(
            *("–" if row[name] is None else f"{row[name]:{kind}}" for name, (_, kind) in columns.items())
        )
    return table
