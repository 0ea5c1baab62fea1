"""All papers, in the order in which a report has them. Each is a folder with a `PAPER`."""

from fedgrid.tracking.papers.bettinelli.claims import PAPER as BETTINELLI
from fedgrid.tracking.papers.flis.claims import PAPER as FLIS
from fedgrid.tracking.papers.ocfl.tables import PAPER as OCFL
from fedgrid.tracking.papers.prigent.tables import PAPER as PRIGENT

PAPERS = (FLIS, PRIGENT, OCFL, BETTINELLI)
