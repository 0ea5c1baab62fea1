"""The clients of a run: messages, workers, actors, pools and their placement."""
