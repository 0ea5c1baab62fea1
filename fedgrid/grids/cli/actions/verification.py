"""Print how far rivals are from their references."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from fedgrid.algorithms.registry import ALGORITHMS, NAMES_IN_PAPERS
from fedgrid.engine.federation.errors import unknown_name_error
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.verify.comparison import (
    TOLERANCE,
    Verification,
    list_references,
    load_reference,
    verify_algorithm,
)


def print_verifications(name: str | None, as_json: bool, console: Console) -> bool:
    """Verify an algorithm, or all that have a reference, and print the greatest differences.

    Returns:
        Whether all differences are those of rounding.

    Raises:
        ConfigError: there is no such algorithm, or it has no reference.
    """
    if name is not None and name not in ALGORITHMS:
        raise unknown_name_error("algorithm", name, ALGORITHMS, NAMES_IN_PAPERS)
    results = [verify_algorithm(each) for each in (list_references() if name is None else [name])]
    if as_json:
        print(json.dumps([asdict(each) for each in results], indent=2))
    else:
        _print_table(results, console)
        for each in results if name is not None else []:
            _print_notes(each.name, console)
    return all(each.is_equal for each in results)


def _print_table(results: list[Verification], console: Console) -> None:
    """Print the differences, one line an algorithm."""
    rows = [
        (
            each.name,
            "–" if each.models is None else f"{each.models:.1e}",
            f"{each.served:.1e}",
            "yes" if each.is_equal else "no",
            load_reference(each.name).FROM_MEMORY or "–",
        )
        for each in results
    ]
    header = ("algorithm", "models", "served", "equal", "formulas from memory of the paper")
    console.print(TextTable(header, rows))
    console.print(
        "\nGreatest differences from a reference in plain torch after three rounds of four clients: of an "
        "entry of the server's models, and of a class probability of a test image, by what its client is "
        f"tested with. Equal: up to {TOLERANCE:g}, which is rounding."
    )


def _print_notes(name: str, console: Console) -> None:
    """Print where the reference is, its settings, and what published code does in other ways."""
    reference = load_reference(name)
    console.print(
        f"Settings: {reference.SETTINGS or 'the defaults'}. Reference: {reference.__name__}", soft_wrap=True
    )
    if reference.QUIRKS:
        console.print("Published code differs:")
    for quirk in reference.QUIRKS:
        console.print(Text(f"- {quirk}"))
