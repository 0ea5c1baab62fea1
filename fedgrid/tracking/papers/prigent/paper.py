"""Prigent et al. in a report."""

from fedgrid.tracking.papers.prigent.tables import against_prigent
from fedgrid.tracking.papers.shared.paper import Paper

PAPER = Paper("prigent", "Prigent et al.", against_prigent)
