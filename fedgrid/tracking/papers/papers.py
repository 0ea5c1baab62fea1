"""All papers, in the order in which a report has them. Each is a folder with a `paper.py`."""

from fedgrid.tracking.papers.bettinelli.paper import PAPER as BETTINELLI
from fedgrid.tracking.papers.flis.paper import PAPER as FLIS
from fedgrid.tracking.papers.ocfl.paper import PAPER as OCFL
from fedgrid.tracking.papers.prigent.paper import PAPER as PRIGENT

PAPERS = (FLIS, PRIGENT, OCFL, BETTINELLI)
