"""The page of promises, each with the tests that hold it: from tests/promises.yaml."""

from pathlib import Path

import yaml

from docs.reference.markdown import code, page, table

TABLE = Path(__file__).parents[2] / "tests" / "promises.yaml"


def read_promises() -> dict[str, dict[str, list[str]]]:
    """Read heading -> promise -> the tests that hold it."""
    sections = yaml.safe_load(TABLE.read_text())
    return {
        heading: {" ".join(row["promise"].split()): row["tests"] for row in rows}
        for heading, rows in sections.items()
    }


def pages() -> dict[str, str]:
    """Write the page: path -> text."""
    tables = (
        part
        for heading, promises in read_promises().items()
        for part in (
            f"## {heading}",
            table(
                ("promise", "tests"), ((text, ", ".join(map(code, its))) for text, its in promises.items())
            ),
        )
    )
    intro = (
        "What each means: [reliability](../reliability.md). What scripts that break things at random found: "
    )
    return {
        "reference/tested-promises.md": page(
            "# Promises and their tests", f"{intro}[evidence](../evidence/reliability.md).", *tables
        )
    }
