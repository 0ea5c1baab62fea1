"""The OCFL papers in a report."""

from fedgrid.tracking.papers.ocfl.tables import against_published
from fedgrid.tracking.papers.shared.paper import Paper

PAPER = Paper("ocfl", "OCFL", against_published, by_setting=True)
