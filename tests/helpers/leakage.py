"""How many test images leak into the training of other clients."""

import numpy as np


def leakage(splits):
    """Return the share of a client's test images that any other client trains on, mean over clients."""
    every_train = np.unique(np.concatenate([split.train for split in splits]))
    return float(np.mean([np.isin(split.test, every_train).mean() for split in splits]))
