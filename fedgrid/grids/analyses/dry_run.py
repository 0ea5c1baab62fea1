"""`--dry-run` of an analysis: what would be done, and how long it takes; nothing is started."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.tables import choice_table, roughly

HEADINGS = {"dataset": "data set", "on": "images of", "hours": "time"}


def show_plan(
    rows: Sequence[Mapping[str, Any]], cores: int, waiting: Sequence[str], *, as_json: bool, console: Console
) -> None:
    """Show the rows of `Analysis.plan`; `waiting` are the runs that are not finished."""
    hours = sum(row.get("hours", 0.0) for row in rows)
    if as_json:
        print(json.dumps({"rows": rows, "hours": hours, "cores": cores, "not_finished": list(waiting)}))
        return
    headings = tuple(HEADINGS.get(key, key.replace("_", " ")) for key in rows[0])
    console.print(choice_table(headings, [tuple(_text(*cell) for cell in row.items()) for row in rows]))
    estimate = (
        f"About {roughly(hours)} on {cores} cores, from a model timed here on random images; a GPU takes "
        "much less. "
    )
    print_plain(console, f"\n{estimate if hours else ''}Nothing was started or written.")


def _text(key: str, value: Any) -> str:
    if key == "hours":
        return roughly(value) if value else "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
