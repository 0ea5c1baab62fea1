"""Print the presets to choose from, as a table or as JSON."""

import json
from pathlib import Path

from rich.console import Console

from fedgrid.grids.display.tables import choice_table
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.preset_files import comment, preset_names, source


def list_presets(as_json: bool, console: Console) -> None:
    """Print name, number of runs and subject of the grids that come with fedgrid."""
    rows = [
        {"name": name, "runs": len(load_grid(name, {}, [], Path()).runs), "what": subject(source(name))}
        for name in preset_names()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    console.print(choice_table(("name", "runs", "what"), [tuple(map(str, row.values())) for row in rows]))


def subject(text: str) -> str:
    """Return what the first comment of a file says up to its colon."""
    return comment(text).partition(": ")[0]
