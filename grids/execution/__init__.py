"""Running a grid: one launch, its trials on Ray Tune, its events."""
