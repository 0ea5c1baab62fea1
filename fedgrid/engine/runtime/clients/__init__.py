"""Where the clients of a run train: actors, pools of them, and their placement."""
