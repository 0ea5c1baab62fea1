"""What is decided before a grid starts: checks, resources, estimated time, order of the runs."""
