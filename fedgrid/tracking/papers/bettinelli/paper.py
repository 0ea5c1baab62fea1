"""Bettinelli et al. in a report: the paper has figures, and no table."""

from fedgrid.tracking.papers.bettinelli.claims import CLAIMS
from fedgrid.tracking.papers.shared.paper import Paper

PAPER = Paper("bettinelli", "Bettinelli et al.", claims=CLAIMS)
