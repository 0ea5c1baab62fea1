"""Running a grid: a launch, the server actors of its runs under Ray Tune, and their events."""
