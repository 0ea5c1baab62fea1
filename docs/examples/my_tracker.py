"""A tracker that prints a line for each round."""

import fedgrid


class Printer(fedgrid.Tracker):
    """Prints rounds and the ends of runs."""

    name = "printer"

    def round(self, run, number, scores, ended_ms):
        """Print a round; called once it is recorded."""
        print(f"{run.config.name}, round {number}: clusters {scores['clusters']}")

    def finished(self, run):
        """Print the folder of a run; called when all rounds are done."""
        print(f"{run.config.name}: finished, in {run.folder}")


TRACKERS = [Printer]
