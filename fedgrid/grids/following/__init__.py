"""Following runs: trackers receive what lies in the runs' folders, while a launch goes on or afterwards."""
