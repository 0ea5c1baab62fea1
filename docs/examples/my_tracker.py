"""Prints a line for each round."""

import fedgrid


class Printer(fedgrid.Tracker):
    """Prints what it is told."""

    name = "printer"

    def round(self, run, number, scores, ended_ms):
        """A round is recorded."""
        print(f"{run.config.name}, round {number}: clusters {scores['clusters']}")

    def finished(self, run):
        """All rounds of a run are done."""
        print(f"{run.config.name}: finished, in {run.folder}")


TRACKERS = [Printer]
