"""Following the runs of a launch: their records are told to trackers, each in a process of its own."""
