"""FLIS in a report."""

from fedgrid.tracking.papers.flis.claims import CLAIMS
from fedgrid.tracking.papers.flis.tables import against_flis
from fedgrid.tracking.papers.shared.paper import Paper

PAPER = Paper("flis", "FLIS", against_flis, claims=CLAIMS)
