"""Following runs: trackers get what lies in the runs' folders, while a launch goes on or afterwards."""
